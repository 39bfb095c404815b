"""The plan of a compaction, gathered over one cut: which bodies go, and which heads begin anew (COMPACT-1)."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from stemmadb.protocol.model import ancestry, branch, replay
from stemmadb.protocol.model.ancestry import Point
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import BranchName, Did, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.limits import MEBIBYTE, Limits
from stemmadb.protocol.model.proposal import Step
from stemmadb.protocol.model.retention import Chain, Entity, Outline, Pins, pins
from stemmadb.protocol.model.state import Missing
from stemmadb.server.engine import compacting_blobs, states
from stemmadb.server.engine.batches import ids_under
from stemmadb.server.engine.merges import KnownMerges
from stemmadb.server.storage.port import LogReader, Place

FACTS_PAGE: Final = 64
"""How many facts of an entity are read at once: each may hold the largest value there is."""
CHECKPOINT_BYTES_MAX: Final = 64 * MEBIBYTE
"""How much one compaction writes as checkpoints; what is left over is for the next one."""
RENEWED_MAX: Final = 100_000
"""How many snapshots are taken at the floor; beyond that they are taken when they fall due (SNAP-1)."""
LOOKED_UP_MAX: Final = 65_536
_INDEX_BITS: Final = 20  # more facts than a commit may have: `bulk_operations_max` is 100,000


class Places(Collection[Place]):
    """Millions of places, eight bytes each."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(self, fact: Outline) -> None:
        self._numbers.append(fact.version << _INDEX_BITS | fact.index)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Place]:
        for number in self._numbers:
            yield Place(Version(number >> _INDEX_BITS), number & ((1 << _INDEX_BITS) - 1))

    def __contains__(self, place: object) -> bool:
        return any(place == one for one in self)


class Plan(msgspec.Struct, frozen=True):
    """What goes and what is written, as of `cut`; `size` is how many bytes go."""

    pins: Pins
    cut: Version
    places: Places
    size: int
    snapshots: int
    checkpoints: tuple[Step, ...]
    renewed: tuple[tuple[BranchName, EntityId], ...]
    unreferenced: frozenset[Hash]


def pins_of(reader: LogReader, floor: Version) -> Pins:
    """What a compaction of this cut has to keep."""
    branches = {state.name: state for state in reader.branches()}
    edges = KnownMerges().seen_by(reader).edges
    graph = ancestry.graph(branches, edges, lru_cache(maxsize=LOOKED_UP_MAX)(reader.last_write))
    tags = [Point(tag.branch, tag.version) for tag in reader.tags()]
    return pins(graph, tags=tags, floor=floor, head=reader.tip().version)


def gather(reader: LogReader, *, space: Did, floor: Version, checkpoints: bool, now: TimeMs, limits: Limits) -> Plan:
    """Looks at every entity once, a few facts at a time."""
    gathering = _Gathering(reader, pins_of(reader, floor), compacting_blobs.removable(reader, now))
    if checkpoints:
        gathering.room = limits.bulk_operations_max
    for id_ in ids_under(reader, ""):
        gathering.take(id_, is_access_list=id_ == EntityId(space))
    return gathering.plan()


class _Gathering:
    def __init__(self, reader: LogReader, pins: Pins, unreferenced: set[Hash]) -> None:
        self._reader = reader
        self._pins = pins
        self._cut = reader.tip().version
        self._branches = {state.name: state for state in reader.branches()}
        self._live = {name for name, state in self._branches.items() if state.deleted is None}
        self._unreferenced = unreferenced
        self._places = Places()
        self._size = 0
        self._checkpoints: list[Step] = []
        self._checkpoint_bytes = 0
        self._renewed: list[tuple[BranchName, EntityId]] = []
        self.room = 0
        """How many checkpoints may be written."""

    def take(self, id_: EntityId, *, is_access_list: bool) -> None:
        facts, named = self._outlines(id_)
        entity = Entity(facts, self._branches)
        dropped = entity.droppable(self._pins)
        for fact in dropped:
            self._places.add(fact)
            self._size += fact.size or 0
        self._refer(id_, facts, dropped, named)
        if not is_access_list:
            self._begin_anew(id_, entity)

    def plan(self) -> Plan:
        floor = self._pins.floor
        sizes = [len(one.body) for one in self._reader.snapshots() if one.place.version < floor]
        if self._unreferenced:
            self._unreferenced -= compacting_blobs.named_in_notes(self._reader)
        return Plan(
            pins=self._pins,
            cut=self._cut,
            places=self._places,
            size=self._size + sum(sizes),
            snapshots=len(sizes),
            checkpoints=tuple(self._checkpoints),
            renewed=tuple(self._renewed),
            unreferenced=frozenset(self._unreferenced),
        )

    def _outlines(self, id_: EntityId) -> tuple[list[Outline], dict[Outline, set[Hash]]]:
        """The facts without their bodies, and the blobs that each of those names."""
        facts: list[Outline] = []
        named: dict[Outline, set[Hash]] = {}
        after: Place | None = None
        while page := self._reader.facts_of(id_, after=after, limit=FACTS_PAGE):
            for fact in page:
                size = None if fact.body is None else len(fact.body)
                facts.append(Outline(fact.version, fact.index, fact.branch, fact.kind, size))
                if self._unreferenced and (found := compacting_blobs.named_in(fact.body) & self._unreferenced):
                    named[facts[-1]] = found
            after = Place(page[-1].version, page[-1].index)
        return facts, named

    def _refer(
        self, id_: EntityId, facts: list[Outline], dropped: list[Outline], named: dict[Outline, set[Hash]]
    ) -> None:
        """What a body that stays names is referred to, and what the id of an entity with such a body names."""
        if len(dropped) < sum(fact.size is not None for fact in facts):
            self._unreferenced -= compacting_blobs.named_in(id_.encode())
        gone = set(dropped) if named else set()
        for fact, found in named.items():
            if fact not in gone:
                self._unreferenced -= found

    def _begin_anew(self, id_: EntityId, entity: Entity) -> None:
        """A snapshot where the state at the floor has a long way to go, a checkpoint where a head begins below it."""
        floor = self._pins.floor
        for name in entity.branches & self._live:
            at_floor, at_head = entity.chain(name, floor), entity.chain(name, self._cut)
            if at_floor is not None and _is_long(at_floor) and len(self._renewed) < RENEWED_MAX:
                self._renewed.append((name, id_))
            if at_head is not None and _is_long(at_head) and at_head.begins < floor and self.room > 0:
                self._checkpoint(name, id_, at_head)

    def _checkpoint(self, name: BranchName, id_: EntityId, chain: Chain) -> None:
        state = states.load(self._reader, branch.lineage(self._branches, name, self._cut), [id_])[id_]
        if isinstance(state.value, Missing):
            return
        body = encode(state.value)
        is_due = replay.snapshot_due(patches=chain.patches, patch_bytes=chain.patch_bytes, value_bytes=len(body))
        if is_due and self._checkpoint_bytes + len(body) <= CHECKPOINT_BYTES_MAX:
            self._checkpoints.append(Step("checkpoint", name, id_, body, None, len(body), (), ()))
            self._checkpoint_bytes += len(body)
            self.room -= 1


def _is_long(chain: Chain) -> bool:
    """Whether a whole value may be due; how large that is, is not known yet."""
    return replay.snapshot_due(patches=chain.patches, patch_bytes=chain.patch_bytes, value_bytes=0)
