"""Checks what the chain cannot see: that each body can be read, each patch applies, and snapshots say the same.

It goes entity by entity and not version by version, so that it holds the states of one entity at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NoReturn

import msgspec
from blake3 import blake3

from stemmadb.protocol.errors import BrokenChain, StemmaError
from stemmadb.protocol.model.history.difference import same
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState, Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.maintenance.check_readable import Lasting, Readable, is_any, pins
from stemmadb.server.maintenance.check_structure import FoldedStructure
from stemmadb.server.maintenance.progress import Counter, OnProgress
from stemmadb.server.storage.port import FactPosition, LogReader

IDS_PAGE: Final = 1_000
FACTS_PAGE: Final = 64  # bodies may be large, and a page is in memory
FINGERPRINT_BYTES: Final = 16

_sorted = msgspec.msgpack.Encoder(order="sorted")


def check(reader: LogReader, made: FoldedStructure, facts: int, on_progress: OnProgress) -> int:
    """How many snapshots were compared; `BrokenChain` where a body, a patch or a snapshot does not hold.

    `made` is the structure that the chain leads to, and `facts` how many the log has: each must belong to an entity
    that is listed.
    """
    snapshots = _fingerprints(reader)
    found = len(snapshots)
    forks, readable = _forks(made.branches), _readable(made)
    counter = Counter(on_progress, "reading the facts of each entity", facts)
    for id_ in _ids(reader):
        states = _States(made.branches, forks, readable, made.erased.get(id_, ()))
        for fact in _facts_of(reader, id_):
            counter.add()
            states.take(fact)
            _compare(snapshots.pop(FactPosition(fact.version, fact.index), None), fact, states.current(fact.branch))
        states.finish()
    counter.finish()
    if counter.done != facts:
        why = f"{counter.done} facts are found under an id, and {facts} are in the log"
        raise BrokenChain(version=reader.tip().version, place="entities", why=why)
    if snapshots:
        place = min(snapshots)
        raise BrokenChain(version=place.version, place=f"snapshot {place.index}", why="there is no fact in its place")
    return found


class _State(msgspec.Struct, frozen=True, gc=False):
    """A state of the entity from a version on; `lost` is the fact that took its value, if no erasure did."""

    since: Version
    value: Value | Missing
    lost: Fact | None = None


_NOTHING: Final = _State(EMPTY_SPACE, Missing.ABSENT)


class _States:
    """The states of one entity: on each branch the newest, and those that a branch looks through to at its fork."""

    def __init__(
        self,
        branches: Mapping[BranchName, BranchState],
        forks: Mapping[BranchName, list[Version]],
        readable: Readable,
        erased: Collection[Version],
    ) -> None:
        self._branches = branches
        self._forks = forks
        self._readable = readable
        self._erased = erased
        self._states: dict[BranchName, list[_State]] = {}
        self._first: dict[BranchName, Version] = {}
        self._lost: list[tuple[Lasting, Fact]] = []

    def current(self, branch: BranchName) -> Value | Missing:
        """The value on a branch after the facts taken so far."""
        return self._newest(branch).value

    def take(self, fact: Fact) -> None:
        before = self._newest(fact.branch)
        value = _after(before.value, fact)
        kept = self._states.setdefault(fact.branch, [])
        if kept:
            self._end(fact.branch, kept[-1], fact.version)
            if not is_any(self._forks.get(fact.branch, ()), kept[-1].since, fact.version):
                kept.pop()
        self._first.setdefault(fact.branch, fact.version)
        kept.append(_State(fact.version, value, self._taken(before, fact) if value is Missing.ERASED else None))

    def finish(self) -> None:
        """All facts were taken: what is lost may not be what can be read."""
        for branch, kept in self._states.items():
            self._end(branch, kept[-1], None)
        for state, fact in self._lost:
            if self._readable.keeps(state, self._first):
                _broken(fact, "its body is gone, no erasure took it, and a version that is kept needs it")

    def _end(self, branch: BranchName, state: _State, before: Version | None) -> None:
        ended = Lasting(branch, state.since, before)
        if state.lost is not None and self._readable.may_keep(ended):
            self._lost.append((ended, state.lost))

    def _taken(self, before: _State, fact: Fact) -> Fact | None:
        """Who took the value of a state that is gone; what an erasure lists explains all that follows from it."""
        if fact.body is not None:
            return before.lost
        is_followed = before.value is Missing.ERASED and fact.kind != "set"
        if fact.version in self._erased or (is_followed and before.lost is None):
            return None
        return before.lost if is_followed else fact

    def _newest(self, branch: BranchName) -> _State:
        kept = self._states.get(branch)
        if kept:
            return kept[-1]
        state = self._branches[branch]
        return _NOTHING if state.parent is None else self._at(state.parent, state.fork)

    def _at(self, branch: BranchName, upto: Version) -> _State:
        kept = self._states.get(branch, [])
        at = bisect_right(kept, upto, key=lambda one: one.since)
        if at:
            return kept[at - 1]
        state = self._branches[branch]
        return _NOTHING if state.parent is None else self._at(state.parent, min(upto, state.fork))


def _after(before: Value | Missing, fact: Fact) -> Value | Missing:
    try:
        after = replay.fold(before, [fact])
    except StemmaError as wrong:
        _broken(fact, f"it cannot be replayed: {wrong.message}")
    if fact.kind == "checkpoint" and not isinstance(before, Missing) and not same(before, after):
        _broken(fact, "a checkpoint states another value than the facts before it")
    return after


def _compare(fingerprint: bytes | None, fact: Fact, state: Value | Missing) -> None:
    if fingerprint is None:
        return
    if isinstance(state, Missing):
        _broken(fact, "there is a snapshot of it, and no value to take one of", "snapshot")
    if fingerprint != _fingerprint(fact.branch, fact.id, state):
        _broken(fact, "the snapshot is not the value that its facts lead to", "snapshot")


def _fingerprints(reader: LogReader) -> dict[FactPosition, bytes]:
    """A few bytes for each snapshot, however large they are."""
    found: dict[FactPosition, bytes] = {}
    for snapshot in reader.snapshots():
        place = f"snapshot {snapshot.place.index} ({snapshot.id})"
        try:
            value = body.read_stored(snapshot.body)
        except StemmaError as wrong:
            raise BrokenChain(version=snapshot.place.version, place=place, why=wrong.message) from wrong
        found[snapshot.place] = _fingerprint(snapshot.branch, snapshot.id, value)
    return found


def _fingerprint(branch: BranchName, id_: EntityId, value: Value) -> bytes:
    return blake3(_sorted.encode((branch, id_, value))).digest(FINGERPRINT_BYTES)


def _forks(branches: Mapping[BranchName, BranchState]) -> dict[BranchName, list[Version]]:
    """For each branch, at which versions others leave it: their parent may see it through forks of its own."""
    begins = (BranchPoint(state.parent, state.fork) for state in branches.values() if state.parent is not None)
    return pins(branches, begins)


def _readable(made: FoldedStructure) -> Readable:
    tags = [BranchPoint(tag.branch, tag.version) for tag in made.tags.values()]
    return Readable(made.branches, tags, made.floor)


def _ids(reader: LogReader) -> Iterator[EntityId]:
    after: EntityId | None = None
    while page := reader.ids("", after, IDS_PAGE):
        yield from page
        after = page[-1]


def _facts_of(reader: LogReader, id_: EntityId) -> Iterable[Fact]:
    after: FactPosition | None = None
    while True:
        page = reader.facts_of(id_, after=after, limit=FACTS_PAGE)
        yield from page
        if len(page) < FACTS_PAGE:
            return
        after = FactPosition(page[-1].version, page[-1].index)


def _broken(fact: Fact, why: str, what: str = "fact") -> NoReturn:
    raise BrokenChain(version=fact.version, place=f"{what} {fact.index} ({fact.id})", why=why)
