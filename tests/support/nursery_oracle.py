"""The nursery by definition: the log up to the version told, the commits that wait, and a view made afresh each time.

It knows nothing of frames beyond what they say in words: how far they reach, what they decide, which watches hold
what. It keeps no values: whatever it is asked, it folds the log from the beginning and lays the pending commits on
it one by one. It is slow on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import graphs
import plain_patch
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, CommitName
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite
from stemmadb.protocol.model.log.commit_record import BranchCreate, Commit, LocalIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.body import read_stored
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Version
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict
from stemmadb.protocol.wire.messages.sync import Sync

Place = tuple[BranchName, EntityId]


class Told(NamedTuple):
    """One fact of the log."""

    version: Version
    branch: BranchName
    id: EntityId
    kind: str
    payload: Any
    hash: Hash


@dataclass
class Log:
    """What the server wrote, in order: every state of every branch is a fold of it (COMMIT-8)."""

    facts: list[Told] = field(default_factory=list)
    forks: dict[BranchName, tuple[BranchName, Version]] = field(default_factory=dict)
    authors: dict[tuple[Did, CommitName], Version] = field(default_factory=dict)
    version: Version = EMPTY_SPACE
    _states: dict[tuple[BranchName, Version], dict[EntityId, Any]] = field(default_factory=dict)

    def take(self, record: Commit, facts: Iterable[Fact]) -> None:
        """A commit that became durable."""
        assert record.version == self.version + 1, "the log has no gaps"
        self.version = record.version
        if isinstance(record.identity, LocalIdentity):
            name = CommitName(record.identity.session, record.identity.local)
            assert (record.author, name) not in self.authors, f"{name} was accepted twice"
            self.authors[record.author, name] = record.version
        if isinstance(record.details, BranchCreate):
            self.forks[record.details.name] = (record.details.parent, record.details.fork)
        for fact in facts:
            payload = None if fact.body is None else read_stored(fact.body)
            self.facts.append(Told(record.version, fact.branch, fact.id, fact.kind, payload, fact.hash))

    def seen(self, branch: BranchName, upto: Version) -> list[Told]:
        """The facts that a branch sees: its own, and its parent's up to the fork."""
        own = [fact for fact in self.facts if fact.branch == branch and fact.version <= upto]
        if branch not in self.forks:
            return own
        parent, fork = self.forks[branch]
        return self.seen(parent, min(upto, fork)) + own

    def state(self, branch: BranchName, upto: Version) -> dict[EntityId, Any]:
        """Every entity that has a value there. Folded once: the past does not change."""
        if (branch, upto) not in self._states:
            self._states[branch, upto] = self._fold(branch, upto)
        return self._states[branch, upto]

    def _fold(self, branch: BranchName, upto: Version) -> dict[EntityId, Any]:
        values: dict[EntityId, Any] = {}
        for fact in self.seen(branch, upto):
            if fact.kind == "patch":
                values[fact.id] = plain_patch.apply(values[fact.id], fact.payload)
            elif fact.kind == "delete":
                del values[fact.id]
            else:
                values[fact.id] = fact.payload
        return values


class Waiting(NamedTuple):
    """A pending commit: what it writes, and the own pending commits it was read through."""

    name: CommitName
    branch: BranchName
    writes: tuple[CommitWrite, ...]
    through: frozenset[CommitName]


class Read(NamedTuple):
    """What was read from the server and no watch holds."""

    value: Any
    as_of: Version


class Over(NamedTuple):
    """A pending commit on an entity, and what is shown with it on top."""

    name: CommitName
    paths: tuple[str, ...] | None
    value: Any


@dataclass
class Picture:
    """What is shown: the layers of each entity that pending commits write, and the commits that are skipped."""

    layers: dict[Place, list[Over]]
    skipped: list[CommitName]


@dataclass
class Oracle:
    """One client, as docs/spec/03 and 04 describe it."""

    log: Log
    to: Version = EMPTY_SPACE
    pending: list[Waiting] = field(default_factory=list)
    ended: dict[CommitName, str] = field(default_factory=dict)
    """How each decided commit ended: `confirmed`, `rejected` or `fallen`."""
    queries: dict[int, Query] = field(default_factory=dict)
    members: dict[int, set[Place]] = field(default_factory=dict)
    """What the server says that each watch holds."""
    filled: set[int] = field(default_factory=set)
    reads: dict[Place, Read] = field(default_factory=dict)
    confirmed_at: dict[Place, int] = field(default_factory=dict)
    """The version of the last own commit on each entity that was confirmed."""

    landed: set[CommitName] = field(default_factory=set)
    """Commits whose facts were told; where they are own ones their verdict may come later."""

    # ------------------------------------------------------------ what happens

    def write(self, name: CommitName, plan: CommitPlan) -> None:
        """A commit is applied: it waits behind the others. What it was read through may have fallen meanwhile."""
        through = frozenset(one for read in plan.reads for one in read.through)
        if any(self.ended.get(one, "confirmed") != "confirmed" for one in through):
            self.ended[name] = "fallen"
            return
        for id_, held in plan.bases:
            assert held.as_of is not None
            self.learn((plan.branch, id_), held.value, held.as_of)
        self.pending.append(Waiting(name, plan.branch, plan.writes, through))

    def learn(self, place: Place, value: Any, as_of: Version) -> None:
        """The server said this of an entity; what is watched, or is known from later on, is left as it is."""
        known = self.reads.get(place)
        is_older = known is not None and known.as_of >= as_of
        if not self.is_watched(place) and not is_older and self.confirmed_at.get(place, 0) <= as_of:
            self.reads[place] = Read(value, as_of)

    def frame(self, frame: Sync, session: bytes) -> None:
        """A whole frame, in the words of "Applying a frame"."""
        if frame.reset is not None:
            self.members, self.filled, self.reads = {}, set(), {}
        accepted = {_name(one, session): one.version for one in frame.verdicts if isinstance(one, AcceptedVerdict)}
        told = sorted((one for one in self.pending if one.name in accepted), key=lambda one: accepted[one.name])
        for commit in told:
            self._hear(commit, accepted[commit.name])
        for commit in told:
            self._confirm(commit, accepted[commit.name])
        self.landed |= {CommitName(one.session, one.local) for one in frame.commits if one.session and one.local}
        for entered in frame.entered:
            if entered.watch in self.queries:  # else it is over here, and the server does not know yet
                self.members.setdefault(entered.watch, set()).add((entered.branch, entered.id))
        for left in frame.left:
            self.members.get(left.watch, set()).discard((left.branch, left.id))
            self.reads.pop((left.branch, left.id), None)
        for ended in frame.ended:
            self.queries.pop(ended.watch, None)
            self.members.pop(ended.watch, None)
        self.filled = (self.filled | set(frame.filled)) & self.queries.keys()
        self.to = frame.to
        self.refuse(*(_name(one, session) for one in frame.verdicts if isinstance(one, RejectedVerdict)))
        self.reads = {place: read for place, read in self.reads.items() if not self.is_watched(place)}

    def unwatch(self, watch: int) -> None:
        """A watch is over."""
        self.unfill(watch)
        self.queries.pop(watch, None)

    def unfill(self, watch: int) -> None:
        """It holds nothing now. What pending commits write is still known as of `to` (NURSERY-1)."""
        self.filled.discard(watch)
        for place in self.members.pop(watch, set()):
            if not self.is_watched(place) and self._is_written(place):
                self.reads[place] = Read(self.log.state(place[0], self.to)[place[1]], self.to)

    def refuse(self, *names: CommitName) -> None:
        """Commits are out, and with them all that depend on them (NURSERY-3); what is decided stays so."""
        refused = [one for one in self.pending if one.name in names]
        for commit in refused:
            self._leave(commit, "rejected")
        for commit in refused:
            self._fall(commit.name)

    def _hear(self, commit: Waiting, version: Version) -> None:
        """What was read of the entities that it wrote is old now (NURSERY-1).

        It is known what is there at its version if nothing else came since the read, or if it says all of it.
        """
        for place in {(commit.branch, write.id) for write in commit.writes}:
            read = self.reads.get(place)
            if read is None:
                is_known = _says_all(commit, place) and commit.name not in self.landed
            elif read.as_of >= version:
                continue
            else:
                del self.reads[place]
                is_known = self._is_right(read, place, version)
            if is_known:
                self.reads[place] = Read(self.log.state(place[0], version).get(place[1], ABSENT), version)

    def _confirm(self, commit: Waiting, version: Version) -> None:
        self._leave(commit, "confirmed")
        for write in commit.writes:
            place = (commit.branch, write.id)
            self.confirmed_at[place] = max(version, self.confirmed_at.get(place, 0))

    def _is_right(self, read: Read, place: Place, before: Version) -> bool:
        """Whether there are no facts strictly between the read and this version."""
        seen = self.log.seen(place[0], before)
        return not any(fact.id == place[1] and read.as_of < fact.version < before for fact in seen)

    def _leave(self, commit: Waiting, how: str) -> None:
        self.pending.remove(commit)
        self.ended[commit.name] = how
        for write in commit.writes:
            if not self._is_written((commit.branch, write.id)):
                self.reads.pop((commit.branch, write.id), None)

    def _fall(self, name: CommitName) -> None:
        for dependent in [one for one in self.pending if name in one.through]:
            if dependent in self.pending:
                self._leave(dependent, "fallen")
                self._fall(dependent.name)

    def written(self) -> set[Place]:
        """What pending commits write."""
        return {(one.branch, write.id) for one in self.pending for write in one.writes}

    def _is_written(self, place: Place) -> bool:
        return place in self.written()

    # ------------------------------------------------------------ what is shown

    def confirmed(self, place: Place) -> Any:
        """The value at `to` of what is watched, else what was read of it, else nobody knows."""
        if self.is_watched(place):
            return self.log.state(place[0], self.to).get(place[1], ABSENT)
        read = self.reads.get(place)
        return UNKNOWN if read is None else read.value

    def basis(self, place: Place) -> Version:
        """The version to declare for a read of it."""
        read = self.reads.get(place)
        return self.to if self.is_watched(place) or read is None else read.as_of

    def is_watched(self, place: Place) -> bool:
        """Whether a watch holds it, or would if it were there."""
        return any(place in held for held in self.members.values()) or any(
            self.queries[watch].branch == place[0] and _names(self.queries[watch], place[1]) for watch in self.filled
        )

    def is_listed(self, branch: BranchName, prefix: str) -> bool:
        """Whether everything under the prefix is known."""
        return any(
            self.queries[watch].branch == branch and _covers(self.queries[watch], prefix) for watch in self.filled
        )

    def picture(self) -> Picture:
        """Confirmed, with the pending operations on top; what does not apply whole is skipped (NURSERY-1)."""
        layers: dict[Place, list[Over]] = {}
        skipped: list[CommitName] = []
        for commit in self.pending:
            if commit.name in self.landed:  # it is in what is confirmed
                continue
            added = self._applied(commit, layers)
            if added is None or commit.through & set(skipped):
                skipped.append(commit.name)
                continue
            for place, over in added.items():
                layers.setdefault(place, []).append(over)
        return Picture(layers, skipped)

    def _applied(self, commit: Waiting, layers: dict[Place, list[Over]]) -> dict[Place, Over] | None:
        added: dict[Place, Over] = {}
        for write in commit.writes:
            place = (commit.branch, write.id)
            below = layers.get(place)
            before = added[place].value if place in added else below[-1].value if below else self.confirmed(place)
            try:
                value = after(write, before)
            except plain_patch.CannotApply:
                return None
            paths = write.paths if place not in added else _both(added[place].paths, write.paths)
            added[place] = Over(commit.name, paths, value)
        return added

    def shown(self, place: Place, picture: Picture) -> Any:
        over = picture.layers.get(place)
        return over[-1].value if over else self.confirmed(place)

    def known(self, branch: BranchName) -> dict[EntityId, Any]:
        """Everything on a branch that is shown and has a value."""
        picture = self.picture()
        places = {place for held in self.members.values() for place in held} | set(self.reads)
        places |= {(branch, id_) for id_ in self.log.state(branch, self.to)} | set(picture.layers)
        shown = {id_: self.shown((on, id_), picture) for on, id_ in places if on == branch}
        return {id_: value for id_, value in shown.items() if value is not ABSENT and value is not UNKNOWN}

    def answer(self, watch: int, *, space: Did) -> dict[EntityId, Any]:
        """What a watch shows: its query, afresh, over all that is shown (NURSERY-4)."""
        query = self.queries[watch]
        known = self.known(BranchName(query.branch))
        found = graphs.naive(query, {id_: graphs.Stored(value) for id_, value in known.items()}, space)
        return {id_: value for id_, value in known.items() if id_ in found.entities}


def _name(verdict: AcceptedVerdict | RejectedVerdict, session: bytes) -> CommitName:
    return CommitName(verdict.session or session, verdict.local)


def after(write: CommitWrite, before: Any) -> Any:
    """The value after one operation, as far as anybody can know it."""
    if write.op == "set":
        return write.value
    if before is ABSENT:
        raise plain_patch.CannotApply(0, "there is nothing")
    if write.op == "delete":
        return ABSENT
    return UNKNOWN if before is UNKNOWN else plain_patch.apply(before, _operations(write.value))


def overlaps(paths: Sequence[str] | None, path: str) -> bool:
    return paths is None or any(pointer.overlaps(one, path) for one in paths)


def _operations(value: Any) -> list[Any]:
    assert isinstance(value, list)
    return value


def _says_all(commit: Waiting, place: Place) -> bool:
    return any((commit.branch, write.id) == place and write.op != "patch" for write in commit.writes)


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if one is None or other is None else one + other


def _names(query: Query, id_: str) -> bool:
    """Whether a root without a schema names the entity: then it is there if it is held, and else it is not."""
    return any(
        root.schema is None
        and not root.path
        and (id_.startswith(root.id[:-1]) if root.id[-1] == "*" else id_ == root.id)
        for root in query.roots
    )


def _covers(query: Query, prefix: str) -> bool:
    return any(
        root.schema is None and not root.path and root.id[-1] == "*" and prefix.startswith(root.id[:-1])
        for root in query.roots
    )
