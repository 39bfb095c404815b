"""Checks what the chain cannot see: that each body can be read, each patch applies, and snapshots say the same.

It goes entity by entity and not version by version, so that it holds the states of one entity at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NoReturn

import msgspec
from blake3 import blake3

from stemmadb.protocol.errors import BrokenChain, StemmaError
from stemmadb.protocol.model import body, replay
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.state import BranchState, Missing
from stemmadb.protocol.model.values import Value, equal
from stemmadb.server.keeping.progress import Counter, Tell
from stemmadb.server.storage.port import LogReader, Place

IDS_PAGE: Final = 1_000
FACTS_PAGE: Final = 64  # bodies may be large, and a page is in memory
FINGERPRINT_BYTES: Final = 16

_sorted = msgspec.msgpack.Encoder(order="sorted")


def check(reader: LogReader, branches: Mapping[BranchName, BranchState], facts: int, tell: Tell) -> int:
    """How many snapshots were compared; `BrokenChain` where a body, a patch or a snapshot does not hold.

    `facts` is how many the log has: each must belong to an entity that is listed.
    """
    snapshots = _fingerprints(reader)
    found = len(snapshots)
    forks = _forks(branches)
    counter = Counter(tell, "reading the facts of each entity", facts)
    for id_ in _ids(reader):
        states = _States(branches, forks)
        for fact in _facts_of(reader, id_):
            counter.add()
            states.take(fact)
            _compare(snapshots.pop(Place(fact.version, fact.index), None), fact, states.current(fact.branch))
    counter.finish()
    if counter.done != facts:
        why = f"{counter.done} facts are found under an id, and {facts} are in the log"
        raise BrokenChain(version=reader.tip().version, place="entities", why=why)
    if snapshots:
        place = min(snapshots)
        raise BrokenChain(version=place.version, place=f"snapshot {place.index}", why="there is no fact in its place")
    return found


class _States:
    """The states of one entity: on each branch the newest, and those that a branch was forked from."""

    def __init__(self, branches: Mapping[BranchName, BranchState], forks: Mapping[BranchName, list[Version]]) -> None:
        self._branches = branches
        self._forks = forks
        self._kept: dict[BranchName, list[tuple[Version, Value | Missing]]] = {}

    def current(self, branch: BranchName) -> Value | Missing:
        """The state on a branch after the facts taken so far."""
        kept = self._kept.get(branch)
        if kept:
            return kept[-1][1]
        state = self._branches[branch]
        return Missing.ABSENT if state.parent is None else self._at(state.parent, state.fork)

    def take(self, fact: Fact) -> None:
        before = self.current(fact.branch)
        after = _after(before, fact)
        kept = self._kept.setdefault(fact.branch, [])
        if kept and not self._is_forked(fact.branch, kept[-1][0], fact.version):
            kept.pop()
        kept.append((fact.version, after))

    def _at(self, branch: BranchName, upto: Version) -> Value | Missing:
        kept = self._kept.get(branch, [])
        at = bisect_right(kept, upto, key=lambda pair: pair[0])
        if at:
            return kept[at - 1][1]
        state = self._branches[branch]
        return Missing.ABSENT if state.parent is None else self._at(state.parent, min(upto, state.fork))

    def _is_forked(self, branch: BranchName, since: Version, before: Version) -> bool:
        """Whether a branch begins at a version from `since` on and before the other."""
        forks = self._forks.get(branch, [])
        at = bisect_left(forks, since)
        return at < len(forks) and forks[at] < before


def _after(before: Value | Missing, fact: Fact) -> Value | Missing:
    try:
        after = replay.fold(before, [fact])
    except StemmaError as wrong:
        _broken(fact, f"it cannot be replayed: {wrong.message}")
    if fact.kind == "checkpoint" and not isinstance(before, Missing) and not equal(before, after):  # type: ignore[arg-type]
        _broken(fact, "a checkpoint states another value than the facts before it")
    return after


def _compare(fingerprint: bytes | None, fact: Fact, state: Value | Missing) -> None:
    if fingerprint is None:
        return
    if isinstance(state, Missing):
        _broken(fact, "there is a snapshot of it, and no value to take one of", "snapshot")
    if fingerprint != _fingerprint(fact.branch, fact.id, state):
        _broken(fact, "the snapshot is not the value that its facts lead to", "snapshot")


def _fingerprints(reader: LogReader) -> dict[Place, bytes]:
    """A few bytes for each snapshot, however large they are."""
    found: dict[Place, bytes] = {}
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
    """For each branch, at which versions others leave it."""
    forks: dict[BranchName, list[Version]] = {}
    for state in branches.values():
        if state.parent is not None:
            insort(forks.setdefault(state.parent, []), state.fork)
    return forks


def _ids(reader: LogReader) -> Iterator[EntityId]:
    after: EntityId | None = None
    while page := reader.ids("", after, IDS_PAGE):
        yield from page
        after = page[-1]


def _facts_of(reader: LogReader, id_: EntityId) -> Iterable[Fact]:
    after: Place | None = None
    while True:
        page = reader.facts_of(id_, after=after, limit=FACTS_PAGE)
        yield from page
        if len(page) < FACTS_PAGE:
            return
        after = Place(page[-1].version, page[-1].index)


def _broken(fact: Fact, why: str, what: str = "fact") -> NoReturn:
    raise BrokenChain(version=fact.version, place=f"{what} {fact.index} ({fact.id})", why=why)
