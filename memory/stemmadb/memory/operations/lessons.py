"""Writing lessons, and adjusting their truth and utility: one transaction each, with links checked inside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from stemmadb.client import Transaction
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.operations.namespaces import ensure_namespace
from stemmadb.memory.rules import ids, instants, namespaces, records, roles
from stemmadb.memory.rules.calls import CallAnswer
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.lessons.faults import LessonFault, LessonRefused
from stemmadb.memory.rules.lessons.records import (
    LessonField,
    LessonObservation,
    lesson_record,
    namespace_of_scope,
    observed,
    visible_namespaces,
)
from stemmadb.memory.rules.lessons.requests import LESSON_KINDS, Adjustment, LessonLinks, UpdateLesson, WriteLesson
from stemmadb.memory.rules.refusals import InvalidRequest, NoSuchMemory
from stemmadb.memory.rules.roles import MemoryCaller


class WrittenLesson(NamedTuple):
    """A new lesson and the version that has it."""

    id: MemoryId
    version: int


class UpdatedLesson(NamedTuple):
    """What an update did, or would do."""

    id: MemoryId
    observations: Sequence[LessonObservation]
    is_committed: bool
    version: int


class LessonSource(Protocol):
    """A transaction, or a moment for a dry run."""

    async def get(self, id_: str, path: str = ..., /) -> Any: ...


class _SeenLesson(NamedTuple):
    nsh: NamespaceHash
    id: MemoryId
    kind: str

    @property
    def entity(self) -> str:
        return ids.memory_entity(self.nsh, self.id)


async def write_lesson(memory: MemorySpace, caller: MemoryCaller, request: WriteLesson) -> WrittenLesson:
    """Makes the lesson with its links, and its namespace if that is new.

    `LessonRefused` if a link leads nowhere that this repository sees.
    """
    ns = namespace_of_scope(request.repo_id, request.memory.scope)
    roles.check_role(caller, "agent")
    roles.check_namespace(caller, ns)
    nsh, uuid = ids.namespace_hash(ns), memory.new_id()
    done: list[Transaction] = []

    async def work(tx: Transaction) -> CallAnswer:
        done[:] = [tx]
        lookup = LessonLookup(tx, memory, caller, request.repo_id)
        links = await lookup.links(request.memory.links)
        is_named = ns in (namespaces.GLOBAL, f"custom:{request.repo_id}")
        kind, metadata = namespaces.read_kind(ns.partition(":")[0]), None if is_named else {"name": request.repo_id}
        await ensure_namespace(tx, memory, ns, kind, metadata)
        record = lesson_record(request.memory, ns=ns, links=links, authority=caller.authority, now=memory.clock.now())
        tx.create(ids.memory_entity(nsh, uuid), records.stored(record))
        return CallAnswer(ids=[uuid])

    entity = ids.namespace_entity(nsh)
    # Of many first writes at once all would make the namespace, and lose to each other: they go one by one.
    locked = [entity] if await memory.space.get(entity, "/kind") is None else []
    reads = [entity, *_possible(request.repo_id, _linked_ids(request.memory.links))]
    await memory.write(work, locked=locked, reads=reads)
    return WrittenLesson(uuid, done[0].version or 0)


async def update_lesson(memory: MemorySpace, caller: MemoryCaller, request: UpdateLesson) -> UpdatedLesson:
    """Moves truth, utility or both, with an observation for each; a dry run answers the same and writes nothing."""
    roles.check_role(caller, "agent")
    if request.mode == "dry_run":
        moment = memory.space.at()
        found, made = await _decided(moment, memory, caller, request)
        return UpdatedLesson(found.id, made, is_committed=False, version=await moment.settled())
    done: list[tuple[Transaction, Sequence[LessonObservation]]] = []

    async def work(tx: Transaction) -> CallAnswer:
        found, made = await _decided(tx, memory, caller, request)
        done[:] = [(tx, made)]
        tx.patch(found.entity, [{"op": "add", "path": f"/{one.field}", "value": one.after} for one in made])
        for one in made:
            tx.create(ids.observation_entity(found.nsh, found.id, memory.new_id()), records.stored(one))
        return CallAnswer(ids=[found.id])

    asked = [request.memory_id, *_problems(request)]
    answer = await memory.write(
        work, locked=_possible(request.repo_id, asked[:1]), reads=_possible(request.repo_id, asked)
    )
    tx, made = done[0]
    return UpdatedLesson(MemoryId(answer.ids[0]), made, is_committed=True, version=tx.version or 0)


async def _decided(
    source: LessonSource, memory: MemorySpace, caller: MemoryCaller, request: UpdateLesson
) -> tuple[_SeenLesson, Sequence[LessonObservation]]:
    lookup = LessonLookup(source, memory, caller, request.repo_id)
    found = await lookup.seen(request.memory_id)
    if found is None:
        raise NoSuchMemory(request.memory_id)
    wanted: list[tuple[LessonField, Adjustment | None]] = [
        ("truth", request.updates.truth),
        ("utility", request.updates.utility),
    ]
    made = []
    for field, adjustment in wanted:
        if adjustment is not None:
            before = await source.get(found.entity, f"/{field}")
            made.append(observed(field, before, adjustment, await lookup.problem_of(field, adjustment)))
    return found, made


class LessonLookup:
    """Finds memories by uuid where a repository may look; what it reads is declared, so it is true at the commit."""

    def __init__(self, source: LessonSource, memory: MemorySpace, caller: MemoryCaller, repo_id: str) -> None:
        self._source = source
        self._now: Millis = memory.clock.now()
        self._names = [name for name in visible_namespaces(repo_id) if roles.may_use(caller, name)]

    async def seen(self, given: str) -> _SeenLesson | None:
        """The lesson with this uuid; None if there is none that is visible."""
        for nsh, uuid in _places(self._names, given):
            kind = await self._source.get(ids.memory_entity(nsh, uuid), "/kind")
            if kind in LESSON_KINDS and await self._is_there(nsh, uuid):
                return _SeenLesson(nsh, uuid, str(kind))
        return None

    async def _is_there(self, nsh: NamespaceHash, uuid: MemoryId) -> bool:
        ns = ids.namespace_entity(nsh)
        ends = [await self._source.get(one, "/expires_at") for one in (ids.memory_entity(nsh, uuid), ns)]
        is_past = any(isinstance(end, int) and instants.is_past(Millis(end), self._now) for end in ends)
        return not is_past and not await self._source.get(ns, "/deleting")

    async def links(self, given: LessonLinks) -> dict[str, str]:
        """Entities by `<rel>:<uuid>`, duplicates folded; `LessonRefused` names every one that leads nowhere."""
        asked = [("problem", "memory.links.problem_id", given.problem_id)] if given.problem_id is not None else []
        asked += [
            ("related", f"memory.links.related_memory_ids.{at}", one)
            for at, one in enumerate(given.related_memory_ids)
        ]
        asked += [
            ("changes", f"memory.links.change_targets.{at}", one) for at, one in enumerate(given.change_targets)
        ]
        found, faults = dict[str, str](), list[LessonFault]()
        for rel, field, uuid in asked:
            seen = await self.seen(uuid)
            fault = _link_fault(seen, uuid, field, needs_problem=rel == "problem")
            if seen is not None and fault is None:
                found[f"{rel}:{seen.id}"] = seen.entity
            faults += [] if fault is None else [fault]
        if faults:
            raise LessonRefused(faults)
        return found

    async def problem_of(self, field: LessonField, adjustment: Adjustment) -> MemoryId | None:
        uuid = adjustment.context_problem_id
        if uuid is None or field == "truth":
            return None
        seen = await self.seen(uuid)
        fault = _link_fault(seen, uuid, f"updates.{field}.context_problem_id", needs_problem=True)
        if seen is None or fault is not None:
            raise LessonRefused([] if fault is None else [fault])
        return seen.id


def _link_fault(seen: _SeenLesson | None, uuid: str, field: str, *, needs_problem: bool) -> LessonFault | None:
    if seen is None:
        return LessonFault(
            "integrity_error", f"{field}: there is no memory {uuid!r} that this repository sees.", field
        )
    if needs_problem and seen.kind != "problem":
        return LessonFault("integrity_error", f"{field}: {uuid} is a {seen.kind}, not a problem.", field)
    return None


def _linked_ids(links: LessonLinks) -> list[str]:
    problem = [] if links.problem_id is None else [links.problem_id]
    return [*problem, *links.related_memory_ids, *links.change_targets]


def _problems(request: UpdateLesson) -> list[str]:
    utility = request.updates.utility
    return [] if utility is None or utility.context_problem_id is None else [utility.context_problem_id]


def _possible(repo_id: str, uuids: Sequence[str]) -> list[str]:
    """The entities that a decision on these uuids may rest on."""
    names = visible_namespaces(repo_id)
    return [ids.memory_entity(nsh, uuid) for given in uuids for nsh, uuid in _places(names, given)]


def _places(names: Sequence[str], given: str) -> list[tuple[NamespaceHash, MemoryId]]:
    """Where a uuid may be; nowhere if it is no uuid."""
    try:
        uuid = ids.read_memory_id(given)
    except InvalidRequest:
        return []
    return [(ids.namespace_hash(name), uuid) for name in names]
