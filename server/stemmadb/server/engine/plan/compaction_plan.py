"""The plan of a compaction, gathered over one read view: which bodies go, and which heads begin anew (COMPACT-1)."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from stemmadb.protocol.model.commit.proposal import Step
from stemmadb.protocol.model.history.retention import Chain, Outline, Pins, RetainedFacts, pins
from stemmadb.protocol.model.log import ancestry, branch_spans, replay
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.values.limits import MEBIBYTE, Limits
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.state_chunks import ids_under
from stemmadb.server.engine.plan import compaction_blobs
from stemmadb.server.engine.plan.known_merges import KnownMerges, Merges
from stemmadb.server.storage.port import FactPosition, LogReader

FACTS_PAGE: Final = 64
"""How many facts of an entity are read at once: each may hold the largest value there is."""
CHECKPOINT_BYTES_MAX: Final = 64 * MEBIBYTE
"""How much one compaction writes as checkpoints; what is left over is for the next one."""
RENEWED_MAX: Final = 100_000
"""How many snapshots are taken at the floor; beyond that they are taken when they fall due (SNAP-1)."""
_INDEX_BITS: Final = 20  # more facts than a commit may have: `bulk_operations_max` is 100,000


class FactPlaces(Collection[FactPosition]):
    """Millions of places, eight bytes each."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(self, fact: Outline) -> None:
        self._numbers.append(fact.version << _INDEX_BITS | fact.index)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[FactPosition]:
        for number in self._numbers:
            yield FactPosition(Version(number >> _INDEX_BITS), number & ((1 << _INDEX_BITS) - 1))

    def __contains__(self, place: object) -> bool:
        return any(place == one for one in self)


class CompactionPlan(msgspec.Struct, frozen=True):
    """What goes and what is written, as of `tip`; `size` is how many bytes go, `oldest` the floor before it."""

    pins: Pins
    tip: Version
    oldest: Version
    places: FactPlaces
    size: int
    snapshots: int
    checkpoints: tuple[Step, ...]
    renewed: tuple[tuple[BranchName, EntityId], ...]
    unreferenced: frozenset[Hash]


def pins_of(reader: LogReader, floor: Version, merges: Merges | None = None) -> Pins:
    """What a compaction of this read view has to keep."""
    branches = {state.name: state for state in reader.branches()}
    merges = merges or KnownMerges().seen_by(reader)
    graph = ancestry.graph(branches, merges.edges, merges.last_change(reader))
    tags = [BranchPoint(tag.branch, tag.version) for tag in reader.tags()]
    return pins(graph, tags=tags, floor=floor, head=reader.tip().version)


def gather(
    reader: LogReader, *, space: Did, floor: Version, checkpoints: bool, now: TimeMs, limits: Limits
) -> CompactionPlan:
    """Looks at every entity once, a few facts at a time."""
    gathering = _Gathering(reader, floor, compaction_blobs.removable(reader, now))
    if checkpoints:
        gathering.room = limits.bulk_operations_max
    for id_ in ids_under(reader, ""):
        gathering.take(id_, is_access_list=id_ == EntityId(space))
    return gathering.plan()


class _Gathering:
    def __init__(self, reader: LogReader, floor: Version, unreferenced: set[Hash]) -> None:
        self._reader = reader
        self._merges = KnownMerges().seen_by(reader)
        self._pins = pins_of(reader, floor, self._merges)
        self._tip = reader.tip().version
        self._branches = {state.name: state for state in reader.branches()}
        self._live = {name for name, state in self._branches.items() if state.deleted is None}
        self._unreferenced = unreferenced
        self._places = FactPlaces()
        self._size = 0
        self._checkpoints: list[Step] = []
        self._checkpoint_bytes = 0
        self._renewed: list[tuple[BranchName, EntityId]] = []
        self.room = 0
        """How many checkpoints may be written."""

    def take(self, id_: EntityId, *, is_access_list: bool) -> None:
        facts, named = self._outlines(id_)
        entity = RetainedFacts(facts, self._branches, self._merges.resolved.get(id_, ()))
        dropped = entity.droppable(self._pins)
        for fact in dropped:
            self._places.add(fact)
            self._size += fact.size or 0
        self._refer(id_, facts, dropped, named)
        if not is_access_list:
            self._begin_anew(id_, entity)

    def plan(self) -> CompactionPlan:
        floor = self._pins.floor
        sizes = [len(one.body) for one in self._reader.snapshots() if one.place.version < floor]
        if self._unreferenced:
            self._unreferenced -= compaction_blobs.named_in_notes(self._reader)
        return CompactionPlan(
            pins=self._pins,
            tip=self._tip,
            oldest=self._reader.floor(),
            places=self._places,
            size=self._size + sum(sizes) + compaction_blobs.size_of(self._reader, self._unreferenced),
            snapshots=len(sizes),
            checkpoints=tuple(self._checkpoints),
            renewed=tuple(self._renewed),
            unreferenced=frozenset(self._unreferenced),
        )

    def _outlines(self, id_: EntityId) -> tuple[list[Outline], dict[Outline, set[Hash]]]:
        """The facts without their bodies, and the blobs that each of those names."""
        facts: list[Outline] = []
        named: dict[Outline, set[Hash]] = {}
        after: FactPosition | None = None
        while page := self._reader.facts_of(id_, after=after, limit=FACTS_PAGE):
            for fact in page:
                size = None if fact.body is None else len(fact.body)
                facts.append(Outline(fact.version, fact.index, fact.branch, fact.kind, size))
                if self._unreferenced and (found := compaction_blobs.named_in(fact.body) & self._unreferenced):
                    named[facts[-1]] = found
            after = FactPosition(page[-1].version, page[-1].index)
        return facts, named

    def _refer(
        self, id_: EntityId, facts: list[Outline], dropped: list[Outline], named: dict[Outline, set[Hash]]
    ) -> None:
        """What a body that stays names is referred to, and what the id of an entity with such a body names."""
        if len(dropped) < sum(fact.size is not None for fact in facts):
            self._unreferenced -= compaction_blobs.named_in(id_.encode())
        erased = set(dropped) if named else set()
        for fact, found in named.items():
            if fact not in erased:
                self._unreferenced -= found

    def _begin_anew(self, id_: EntityId, entity: RetainedFacts) -> None:
        """A snapshot where the state at the floor has a long way to go, a checkpoint where a head begins below it."""
        floor = self._pins.floor
        for name in entity.branches & self._live:
            at_floor, at_head = entity.chain(name, floor), entity.chain(name, self._tip)
            if at_floor is not None and _is_long(at_floor) and len(self._renewed) < RENEWED_MAX:
                self._renewed.append((name, id_))
            if at_head is not None and _is_long(at_head) and at_head.begins < floor and self.room > 0:
                self._checkpoint(name, id_, at_head)

    def _checkpoint(self, name: BranchName, id_: EntityId, chain: Chain) -> None:
        state = states.load(self._reader, branch_spans.lineage(self._branches, name, self._tip), [id_])[id_]
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
