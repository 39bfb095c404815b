"""The nursery of one space: confirmed and pending, and what changes them (NURSERY-1..6).

It is told of own commits, frames and answers. It says what became of commits, what is shown, and what must be asked
for. It does nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from stemmadb.client.nursery import falling
from stemmadb.client.nursery.frames import FrameApplier, Own
from stemmadb.client.nursery.held import CommitName, Held, Key
from stemmadb.client.nursery.outcomes import Confirmation, Integrated, Refusal
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.nursery.shelf import Shelf
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Version
from stemmadb.protocol.wire import problems
from stemmadb.protocol.wire.messages.commit import Accepted, Rejected
from stemmadb.protocol.wire.messages.sync import Sync

_K = TypeVar("_K")
_V = TypeVar("_V")
REMEMBERED_MAX: Final = 10_000
"""How many refused commits, and how many entities of accepted ones, are remembered."""


class Nursery(Shelf):
    """Pure: no I/O, no clock (NURSERY-6). Its caller keeps and sends; it decides what is shown."""

    def __init__(self, principal: Did | None = None) -> None:
        super().__init__()
        self._principal = principal
        """Whose commits these are: everybody can see a session id, and use it for commits of theirs."""
        self._refused: dict[CommitName, None] = {}
        self._accepted: dict[Key, Version] = {}
        self.history = 0
        """How often the server was found to have another history: a version means something within one only."""

    def stand_at(self, to: Version, hash_: Hash) -> None:
        """Where an earlier run of the app stood: nothing of it is held, and it resumes from there (RESUME-4)."""
        self._confirmed.to, self._confirmed.hash = to, hash_

    def pending(self) -> tuple[Pending, ...]:
        """Undecided commits, the oldest first."""
        return tuple(self._stack)

    def find(self, name: CommitName) -> Pending | None:
        return self._stack.find(name)

    def __len__(self) -> int:
        """How many commits are undecided."""
        return len(self._stack)

    def accepted_after(self, branch: BranchName, id_: EntityId, version: Version) -> bool:
        """Whether an own commit that wrote it was accepted after this version: a read at it would miss that."""
        return self._accepted.get((branch, id_), EMPTY_SPACE) > version

    # ------------------------------------------------------------ own commits

    def add(self, pending: Pending, bases: Iterable[tuple[EntityId, Held]] = ()) -> Refusal | None:
        """In the view at once (NURSERY-5); or refused at once, if one it was read through has been refused."""
        below = next((one for one in pending.depends if one in self._refused), None)
        if below is not None:
            self._remember(self._refused, pending.name, None)
            return falling.fallen(pending, below)
        for id_, held in bases:
            self._learn((pending.branch, id_), held)
        self._stack.push(pending)
        self._changed(pending.written())
        return None

    def refuse(self, name: CommitName, error: StemmaError) -> tuple[Refusal, ...]:
        """A commit is refused outside of a frame; it and all that depend on it leave the view together."""
        pending = self._stack.find(name)
        return self._refuse_here([] if pending is None else [pending], error)

    def refuse_all(self, error: StemmaError) -> tuple[Refusal, ...]:
        """Every commit that is not in the log is refused: what they read is another history (RESUME-4)."""
        return self._refuse_here([one for one in self.pending() if not one.has_landed], error)

    def _refuse_here(self, every: Iterable[Pending], error: StemmaError) -> tuple[Refusal, ...]:
        touched: set[Key] = set()
        refused = self._fall([falling.refused_here(one, error, self.to) for one in every], touched)
        self._drop_unneeded(one.pending for one in refused)
        self._changed(touched)
        return refused

    def pass_over(self, names: Iterable[CommitName]) -> None:
        """These may be in the log, and what is confirmed may have them: on top of that they would be shown twice.

        Until their verdicts they count as landed. If they have not, what is read meanwhile does not claim them.
        """
        found = [one for one in map(self._stack.find, names) if one is not None]
        for pending in found:
            pending.has_landed = True
        self._changed(self._stack.replay((), [one.name for one in found]))

    # ------------------------------------------------------------ answers

    def answered(self, key: Key, held: Held | None, version: Version) -> bool:
        """What a query said of an entity that was wanted, as of this version; whether that settled the matter.

        It did not if a later fact of the entity was told meanwhile, or the watch holds it and the query does not:
        then it is asked for again (SYNC-4). `held` is None where the query found nothing.
        """
        if self._confirmed.is_doubtful(key):
            if held is None or self._confirmed.told_of(key) > version:
                return False
            self._beneath([key], lambda: self._confirmed.hold(key, held._replace(as_of=None)))
        elif self._stack.has(key) and held is not None:
            if self.accepted_after(*key, version):
                return False
            self._learn(key, held._replace(as_of=version))
        return True

    def _learn(self, key: Key, held: Held) -> None:
        """Lies beneath pending layers from now on, unless a watch knows better or more is known already."""
        assert held.as_of is not None, "what was read has the version it was read at"
        known = self._confirmed.get(key)
        is_newer = known is None or (known.as_of is not None and known.as_of < held.as_of)
        is_old = self.is_local(*key) or self.accepted_after(*key, held.as_of)
        if is_newer and not is_old and not self._confirmed.is_watched(key):
            self._about_to_change(key)
            self._confirmed.hold(key, held)
            if self._stack.has(key):
                self._changed(self._stack.replay([key]))

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
        applier.apply_facts({one.verdict.version: one for one in own}, self._stack)
        applier.enter()
        applier.leave()
        ended = self._end(frame, applier.moved)
        self._confirmed.to, self._confirmed.hash = frame.to, frame.hash
        self._drop_orphans(applier.moved)
        touched |= applier.touched | applier.moved
        if frame.filled or ended:
            applier.fill()
            touched |= self._forget_covered() | self._unheld()
        suspects = self._settle(own, touched)
        suspects |= self._land(frame)
        touched |= self._stack.replay(touched, suspects)
        refused = self._fall(self._refusals(frame, session), touched)
        self._drop_unneeded((*(one.pending for one in own), *(one.pending for one in refused)))
        self._changed(touched)
        for number in frame.filled:
            if number in self._watchers:
                self._watchers[number].fill()
        confirmed = tuple(Confirmation(p, v.version, v.time, v.hash) for p, v in own)
        return Integrated(confirmed, refused, ended, strangers)

    def is_blind_to(self, frame: Sync, *, session: bytes) -> bool:
        """Whether facts may have been left out because their commit was held here (SYNC-2), and it is not: it was
        refused here, or it is another one of that name. Somebody works with a copy of this journal."""
        if frame.reset is not None:  # then values come, and no facts
            return False
        told = {item.version for item in frame.commits}
        for verdict in frame.verdicts:
            if isinstance(verdict, Accepted) and verdict.version > frame.from_ and verdict.version not in told:
                pending = self._stack.find(CommitName(verdict.session or session, verdict.local))
                if pending is None or pending.request != verdict.request:
                    return True
        return False

    def _own(self, frame: Sync, session: bytes, issued: int) -> tuple[list[Own], bool]:
        """The accepted commits that are pending here; and whether others turned up that were never made here."""
        own: dict[CommitName, Own] = {}
        strangers = False
        for verdict in frame.verdicts:
            name = CommitName(verdict.session or session, verdict.local)
            pending = self._stack.find(name)
            is_accepted = isinstance(verdict, Accepted)
            if pending is None:
                is_ours = verdict.session is not None or verdict.local <= issued
                strangers |= not is_ours or (is_accepted and name in self._refused)
            elif isinstance(verdict, Accepted):
                is_ours = verdict.request == pending.request
                strangers |= not is_ours
                if is_ours:  # one that is told twice is decided once
                    own.setdefault(name, Own(pending, verdict))
        return list(own.values()), strangers

    def _settle(self, own: list[Own], touched: set[Key]) -> set[CommitName]:
        """Takes accepted commits from the stack; gives those built on them that are not shown, and may be now.

        One that is shown stays so on that account: in a tall pile, judging them all anew costs its square.
        """
        for pending, verdict in own:
            for key in pending.written():
                touched.add(key)
                self._remember(self._accepted, key, verdict.version)
        built = self._stack.remove(one.pending for one in own)
        return {name for name in built if (one := self._stack.find(name)) is not None and not one.is_shown}

    def _land(self, frame: Sync) -> set[CommitName]:
        """Own commits of older sessions, whose facts come as anybody's: verdicts come when they are sent again."""
        names = {
            CommitName(one.session, one.local)
            for one in frame.commits
            if one.session and one.local and self._principal in (None, one.author)
        }
        landed = set()
        for name in names:
            pending = self._stack.find(name)
            if pending is not None:
                pending.has_landed = True
                landed.add(name)
        return landed

    def _refusals(self, frame: Sync, session: bytes) -> list[Refusal]:
        found = []
        for verdict in frame.verdicts:
            if isinstance(verdict, Rejected):
                pending = self._stack.find(CommitName(verdict.session or session, verdict.local))
                if pending is not None:
                    found.append(falling.refused(pending, verdict, frame.to))
        return found

    def _fall(self, refused: list[Refusal], touched: set[Key]) -> tuple[Refusal, ...]:
        """They leave together with all that depend on them; what is left shows what it would without (NURSERY-3)."""
        if not refused:
            return ()
        every = falling.cascade(refused, self._stack)
        for one in every:
            self._remember(self._refused, one.pending.name, None)
        keys = {key for one in every for key in one.pending.written()}
        built = self._stack.remove(one.pending for one in every)
        assert not built, "whatever depends on a refused commit fell with it"
        touched |= self._stack.replay(keys)
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
        """Forgets what was told; what is pending stays (RESUME-1, RESUME-4)."""
        for view in self._views:
            for id_ in self.ids_under(view.branch, ""):
                view.keep(id_)
        gone = self._confirmed.start_over()
        for watcher in self._watchers.values():
            watcher.unfill()
        return gone | set(self._stack.keys())

    def _forget_history(self) -> None:
        """The versions of another history, and what landed there, say nothing about this one (RESUME-4)."""
        self.history += 1
        self._accepted.clear()
        for pending in self._stack:
            pending.has_landed = False

    # ------------------------------------------------------------ what is kept and what is not

    def _drop_orphans(self, moved: Iterable[Key]) -> None:
        """What left its last watch: the facts before were not told, so that what is held may be old."""
        for key in moved:
            held = self._confirmed.get(key)
            if not self._confirmed.is_watched(key) and (held is None or held.as_of is None):
                self._confirmed.forget(key)

    def _forget_covered(self) -> set[Key]:
        """What was read once, and a filled watch now names and does not hold: it is gone."""
        covered = {key for key in self._stack.keys() if self._is_only_read(key) and self._confirmed.covered(key)}  # noqa: SIM118
        for key in covered:
            self._about_to_change(key)
            self._confirmed.forget(key)
        return covered

    def _is_only_read(self, key: Key) -> bool:
        held = self._confirmed.get(key)
        return held is not None and held.as_of is not None

    def _drop_unneeded(self, gone: Iterable[Pending]) -> None:
        """What was held only beneath work that is decided now."""
        for pending in gone:
            for key in pending.written():
                if not self._stack.has(key) and not self._confirmed.is_watched(key):
                    self._confirmed.forget(key)

    @staticmethod
    def _remember(memory: dict[_K, _V], key: _K, value: _V) -> None:
        """Notes it as the newest, and forgets the oldest past the bound."""
        memory.pop(key, None)
        memory[key] = value
        if len(memory) > REMEMBERED_MAX:
            del memory[next(iter(memory))]
