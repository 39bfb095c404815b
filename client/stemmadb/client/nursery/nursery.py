"""The nursery of one space: confirmed and pending, and what changes them (NURSERY-1..6).

Its caller hands it own commits, frames and answers. It returns what became of commits, what is shown, and what must
be fetched. It does nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from stemmadb.client.nursery import cascade
from stemmadb.client.nursery.changes import ConfirmedChanges
from stemmadb.client.nursery.entities import CachedEntity, CommitName, Key
from stemmadb.client.nursery.frames import AcceptedOwn, FrameApplier
from stemmadb.client.nursery.outcomes import CommitRefusal, Confirmation, Integrated
from stemmadb.client.nursery.overlay import Overlay
from stemmadb.client.nursery.pending import Pending
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Version
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict
from stemmadb.protocol.wire.messages.sync import Sync

_K = TypeVar("_K")
_V = TypeVar("_V")
REMEMBERED_MAX: Final = 10_000
"""How many refused commits, and how many entities of accepted ones, are remembered."""


class Nursery(Overlay):
    """Pure: no I/O, no clock (NURSERY-6). Its caller keeps and sends; it decides what is shown."""

    def __init__(self, principal: Did | None = None) -> None:
        super().__init__()
        self._principal = principal
        """Whose commits these are: everybody can see a session id, and use it for commits of theirs."""
        self.find: Final = self._layers.find
        """The commit of a name, while it is pending."""
        self._refused: dict[CommitName, None] = {}
        self._accepted: dict[Key, Version] = {}
        self.history = 0
        """How often the server was found to have another history: a version means something within one only."""

    def stand_at(self, to: Version, hash_: Hash) -> None:
        """Where an earlier run of the app stood: nothing of it is cached, and it resumes from there (RESUME-4)."""
        self._confirmed.to, self._confirmed.hash = to, hash_

    def restore(
        self, to: Version, hash_: Hash, entities: Mapping[Key, CachedEntity], members: Mapping[int, set[EntityId]]
    ) -> None:
        """What an earlier run of the app had cached: its watches are here already, and are filled now (CACHE-3)."""
        self.stand_at(to, hash_)
        self._confirmed.restore(entities, members)
        for number in members:
            self._watchers[number].fill()

    def forget_confirmed(self) -> None:
        """Lets every watch go empty; pending commits stay, and so does where it stands (CACHE-4)."""
        for number in tuple(self._confirmed.watches):
            self.unfill(number)

    def integrated(self) -> tuple[CommitName, ...]:
        """Undecided commits whose facts are, or may be, among the confirmed values."""
        return tuple([one.name for one in self._layers if one.is_integrated])

    def record_changes(self, *, is_on: bool = True) -> None:
        """From now on `take_changes` says what changed; or nobody wants to know any more."""
        self._confirmed.changes = ConfirmedChanges() if is_on else None

    def take_changes(self) -> ConfirmedChanges:
        """What changed in the confirmed values since the last call."""
        changes, self._confirmed.changes = self._confirmed.changes, ConfirmedChanges()
        assert changes is not None, "changes are recorded"
        return changes

    @property
    def has_changes(self) -> bool:
        """Whether `take_changes` would say anything."""
        return bool(self._confirmed.changes)

    def pending(self) -> tuple[Pending, ...]:
        """Undecided commits, the oldest first."""
        return tuple(self._layers)

    def __len__(self) -> int:
        """How many commits are undecided."""
        return len(self._layers)

    def accepted_after(self, branch: BranchName, id_: EntityId, version: Version) -> bool:
        """Whether an own commit that wrote it was accepted after this version: a read at it would miss that."""
        return self._accepted.get((branch, id_), EMPTY_SPACE) > version

    # ------------------------------------------------------------ own commits

    def add(self, pending: Pending, bases: Iterable[tuple[EntityId, CachedEntity]] = ()) -> CommitRefusal | None:
        """In the view at once (NURSERY-5); or refused at once, if one it was read through has been refused."""
        below = next(pending.depends.among(self._refused), None) if self._refused else None
        if below is not None:
            self._remember(self._refused, pending.name, None)
            return cascade.rejected_because_of(pending, below)
        for id_, cached in bases:
            self._learn((pending.branch, id_), cached)
        self._layers.push(pending)
        self._changed(pending.keys)
        return None

    def refuse(self, name: CommitName, error: StemmaError) -> tuple[CommitRefusal, ...]:
        """A commit is refused outside of a frame; it and all that depend on it leave the view together."""
        pending = self._layers.find(name)
        return self._refuse_here([] if pending is None else [pending], error)

    def refuse_all(self, error: StemmaError) -> tuple[CommitRefusal, ...]:
        """Every commit that is not in the log is refused: what they read is another history (RESUME-4)."""
        return self._refuse_here([one for one in self.pending() if not one.is_integrated], error)

    def _refuse_here(self, every: Iterable[Pending], error: StemmaError) -> tuple[CommitRefusal, ...]:
        touched: set[Key] = set()
        refused = self._reject_with_dependents(
            [cascade.refused_locally(one, error, self.to) for one in every], touched
        )
        self._drop_unneeded(one.pending for one in refused)
        self._changed(touched)
        return refused

    def pass_over(self, names: Iterable[CommitName]) -> None:
        """Hides commits that the server may already have applied, so that they are not applied twice locally.

        Until their verdicts they count as integrated. If they are not, reads made meanwhile do not claim them.
        """
        found = [one for one in map(self._layers.find, names) if one is not None]
        for pending in found:
            pending.is_integrated = True
        self._changed(self._layers.replay((), [one.name for one in found]))

    # ------------------------------------------------------------ answers

    def answered(self, key: Key, cached: CachedEntity | None, version: Version) -> bool:
        """What a query said of an entity that was wanted, as of this version; whether that settled the matter.

        It did not if a later fact of the entity was told meanwhile, or the watch holds it and the query does not:
        then it is asked for again (SYNC-4). `held` is None where the query found nothing.
        """
        if self._confirmed.is_doubtful(key):
            if cached is None or self._confirmed.last_version_of(key) > version:
                return False
            self._beneath([key], lambda: self._confirmed.put(key, cached._replace(as_of=None)))
        elif self._layers.has(key) and cached is not None:
            if self.accepted_after(*key, version):
                return False
            self._learn(key, cached._replace(as_of=version))
        return True

    def _learn(self, key: Key, cached: CachedEntity) -> None:
        """Lies beneath pending layers from now on, unless a watch knows better or more is known already."""
        assert cached.as_of is not None, "what was read has the version it was read at"
        known = self._confirmed.get(key)
        is_newer = known is None or (known.as_of is not None and known.as_of < cached.as_of)
        is_old = self.is_local(*key) or self.accepted_after(*key, cached.as_of)
        if is_newer and not is_old and not self._confirmed.is_watched(key):
            self._about_to_change(key)
            self._confirmed.put(key, cached)
            if self._layers.has(key):
                self._changed(self._layers.replay([key]))

    # ------------------------------------------------------------ frames

    def integrate(self, frame: Sync, *, session: bytes, issued: int) -> Integrated:
        """Applies a frame whole: facts, verdicts, what entered and left; then says what changed (SYNC-1).

        `session` is the one opened on this connection; `issued` is the highest local that was made in it here.
        """
        touched: set[Key] = self._start_over() if frame.reset is not None else set()
        if frame.reset == "history":
            self._forget_history()
        own, strangers = self._own(frame, session, issued)
        applier = FrameApplier(self._confirmed, frame, about_to_change=self._about_to_change)
        applier.apply_facts({one.verdict.version: one for one in own}, self._layers)
        if frame.entered:
            applier.enter()
        if frame.left:
            applier.leave()
        ended = self._end(frame, applier.moved) if frame.ended else ()
        self._confirmed.to, self._confirmed.hash = frame.to, frame.hash
        if applier.moved:
            self._drop_orphans(applier.moved)
        touched |= applier.touched | applier.moved
        if frame.filled or ended:
            applier.fill()
            touched |= self._forget_covered() | self._uncached()
        suspects = self._settle(own, touched) if own else set()
        if frame.commits:
            suspects |= self._mark_integrated(frame)
        touched |= self._layers.replay(touched, suspects)
        refused: tuple[CommitRefusal, ...] = ()
        if len(own) < len(frame.verdicts):
            refused = self._reject_with_dependents(self._refusals(frame, session), touched)
        self._drop_unneeded([*[one.pending for one in own], *[one.pending for one in refused]])
        self._changed(touched)
        for number in frame.filled:
            if number in self._watchers:
                self._watchers[number].fill()
        confirmed = tuple(Confirmation(p, v.version, v.time, v.hash) for p, v in own)
        return Integrated(confirmed, refused, ended, strangers)

    def is_blind_to(self, frame: Sync, *, session: bytes) -> bool:
        """Whether facts may have been left out because their commit was pending here (SYNC-2), and it is not: it was
        refused here, or it is another one of that name. Somebody works with a copy of this journal."""
        if frame.reset is not None:  # then values come, and no facts
            return False
        sent = {item.version for item in frame.commits}
        for verdict in frame.verdicts:
            if isinstance(verdict, AcceptedVerdict) and verdict.version > frame.from_ and verdict.version not in sent:
                pending = self._layers.find(CommitName(verdict.session or session, verdict.local))
                if pending is None or pending.request != verdict.request:
                    return True
        return False

    def _own(self, frame: Sync, session: bytes, issued: int) -> tuple[list[AcceptedOwn], bool]:
        """The accepted commits that are pending here; and whether others turned up that were never made here."""
        own: dict[CommitName, AcceptedOwn] = {}
        strangers = False
        for verdict in frame.verdicts:
            name = CommitName(verdict.session or session, verdict.local)
            pending = self._layers.find(name)
            is_accepted = isinstance(verdict, AcceptedVerdict)
            if pending is None:
                is_ours = verdict.session is not None or verdict.local <= issued
                strangers |= not is_ours or (is_accepted and name in self._refused)
            elif isinstance(verdict, AcceptedVerdict):
                is_ours = verdict.request == pending.request
                strangers |= not is_ours
                if is_ours:  # one that is told twice is decided once
                    own.setdefault(name, AcceptedOwn(pending, verdict))
        return list(own.values()), strangers

    def _settle(self, own: list[AcceptedOwn], touched: set[Key]) -> set[CommitName]:
        """Removes accepted commits from the layers; returns hidden commits built on them, which may be shown now.

        A shown commit stays shown, so it is not judged again: with n layers that would cost O(n^2).
        """
        for pending, verdict in own:
            for key in pending.keys:
                touched.add(key)
                self._remember(self._accepted, key, verdict.version)
        self._layers.remove(one.pending for one in own)
        return self._layers.hidden_above({one.pending.name for one in own})

    def _mark_integrated(self, frame: Sync) -> set[CommitName]:
        """Marks own commits of older sessions whose facts are in the frame; their verdicts come after a resend."""
        names = {
            CommitName(one.session, one.local)
            for one in frame.commits
            if one.session and one.local and self._principal in (None, one.author)
        }
        integrated = set()
        for name in names:
            pending = self._layers.find(name)
            if pending is not None:
                pending.is_integrated = True
                integrated.add(name)
        return integrated

    def _refusals(self, frame: Sync, session: bytes) -> list[CommitRefusal]:
        found = []
        for verdict in frame.verdicts:
            if isinstance(verdict, RejectedVerdict):
                pending = self._layers.find(CommitName(verdict.session or session, verdict.local))
                if pending is not None:
                    found.append(cascade.refused_by_server(pending, verdict, frame.to))
        return found

    def _reject_with_dependents(self, refused: list[CommitRefusal], touched: set[Key]) -> tuple[CommitRefusal, ...]:
        """Removes refused commits and their dependents; the rest is shown as if they had never been (NURSERY-3)."""
        if not refused:
            return ()
        every = cascade.with_dependents(refused, self._layers)
        for one in every:
            self._remember(self._refused, one.pending.name, None)
        keys = {key for one in every for key in one.pending.keys}
        self._layers.remove(one.pending for one in every)
        touched |= self._layers.replay(keys)
        return every

    def _end(self, frame: Sync, moved: set[Key]) -> tuple[tuple[int, StemmaError], ...]:
        ended: list[tuple[int, StemmaError]] = []
        for one in frame.ended:
            if one.watch in self._confirmed.watches:
                branch = self._confirmed.watches[one.watch].branch
                keys = {(branch, id_) for id_ in self._confirmed.members(one.watch)}
                for key in keys:
                    self._about_to_change(key)
                moved |= keys
                self._confirmed.empty(one.watch)
                error = problems.restore(one)
                self._watchers.pop(one.watch).end(error)
                del self._confirmed.watches[one.watch]
                ended.append((one.watch, error))
        return tuple(ended)

    def _start_over(self) -> set[Key]:
        """Forgets everything confirmed; pending commits stay (RESUME-1, RESUME-4)."""
        for view in self._views:
            for id_ in self.ids_under(view.branch, ""):
                view.retain(id_)
        forgotten = self._confirmed.start_over()
        for watcher in self._watchers.values():
            watcher.unfill()
        return forgotten | set(self._layers.keys())

    def _forget_history(self) -> None:
        """Versions of another history, and what was integrated there, say nothing about this one (RESUME-4)."""
        self.history += 1
        self._accepted.clear()
        for pending in self._layers:
            pending.is_integrated = False

    # ------------------------------------------------------------ what is kept and what is not

    def _drop_orphans(self, moved: Iterable[Key]) -> None:
        """Forgets entities that left their last watch: earlier facts were not sent, so the cache may be stale."""
        for key in moved:
            cached = self._confirmed.get(key)
            if not self._confirmed.is_watched(key) and (cached is None or cached.as_of is None):
                self._confirmed.forget(key)

    def _forget_covered(self) -> set[Key]:
        """What was read once, and a filled watch now names and does not hold: it is gone."""
        covered = {key for key in self._layers.keys() if self._is_only_read(key) and self._confirmed.covered(key)}  # noqa: SIM118
        for key in covered:
            self._about_to_change(key)
            self._confirmed.forget(key)
        return covered

    def _is_only_read(self, key: Key) -> bool:
        cached = self._confirmed.get(key)
        return cached is not None and cached.as_of is not None

    def _drop_unneeded(self, decided: Iterable[Pending]) -> None:
        """Forgets entities that were cached only beneath commits that are decided now."""
        for pending in decided:
            for key in pending.keys:
                if not self._layers.has(key) and not self._confirmed.is_watched(key):
                    self._confirmed.forget(key)

    @staticmethod
    def _remember(memory: dict[_K, _V], key: _K, value: _V) -> None:
        """Notes it as the newest, and forgets the oldest past the bound."""
        memory.pop(key, None)
        memory[key] = value
        if len(memory) > REMEMBERED_MAX:
            del memory[next(iter(memory))]
