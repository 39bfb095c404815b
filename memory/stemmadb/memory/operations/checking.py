"""Whether every rule of memory is true right now. A rule is a function of the whole state; add one to `CHECKS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import apsw

from stemmadb.memory.operations.forgetting import EVERY
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import ids
from stemmadb.memory.rules.decisions import target_of
from stemmadb.memory.rules.namespaces import namespace_of
from stemmadb.memory.rules.records import memory_of

PREFIXES: Final = (ids.NAMESPACES, *ids.OF_A_NAMESPACE, ids.FORGETS)


class CheckFinding(NamedTuple):
    """A rule that does not hold, and where."""

    rule: str
    entity: str
    why: str


class MemoryState(NamedTuple):
    """Everything at one version: values by entity id, and the entities that the index takes for live."""

    version: int
    values: Mapping[str, Any]
    indexed: frozenset[str]


async def check(memory: MemorySpace) -> tuple[int, Sequence[CheckFinding]]:
    """All findings at once, and the version that was looked at."""
    await memory.index.reach()
    moment = memory.space.at()
    values: dict[str, Any] = {}
    for prefix in PREFIXES:
        values |= await moment.list(prefix + EVERY)
    version = await moment.settled()
    await memory.index.reach(version)
    state = MemoryState(version, values, frozenset(await memory.index.ask(lambda one: _live(one, version))))
    return version, [finding for check_one in CHECKS for finding in check_one(state)]


def _live(connection: apsw.Connection, version: int) -> list[str]:
    rows = connection.execute(
        "SELECT entity FROM validity WHERE row IS NOT NULL AND since<=? AND (until IS NULL OR until>?)",
        (version, version),
    )
    return [str(entity) for (entity,) in rows]


def _records_are_valid(state: MemoryState) -> Iterator[CheckFinding]:
    for entity, value in state.values.items():
        if entity.startswith(ids.NAMESPACES):
            namespace = namespace_of(value)
            if namespace is None or ids.namespace_entity(namespace.nsh) != entity:
                yield CheckFinding("MEM-2", entity, "it is not the namespace that its id names")
        elif entity.startswith(ids.MEMORIES):
            record, parts = memory_of(value), ids.parts_of(entity)
            if record is None or parts is None or ids.namespace_hash(record.ns) != parts[0]:
                yield CheckFinding("MEM-1", entity, "it is no memory of the namespace that its id names")


def _memories_have_a_namespace(state: MemoryState) -> Iterator[CheckFinding]:
    for entity in state.values:
        parts = ids.parts_of(entity)
        if parts is not None and ids.namespace_entity(parts[0]) not in state.values:
            yield CheckFinding("MEM-2", entity, "its namespace does not exist")


def _vectors_have_a_memory(state: MemoryState) -> Iterator[CheckFinding]:
    for entity in state.values:
        if entity.startswith(ids.VECTORS) and ids.MEMORIES + entity.removeprefix(ids.VECTORS) not in state.values:
            yield CheckFinding("MEM-7", entity, "its memory does not exist")


def _targets_have_one_active_decision(state: MemoryState) -> Iterator[CheckFinding]:
    active: dict[tuple[str, str], list[str]] = {}
    for entity, value in state.values.items():
        record = memory_of(value) if entity.startswith(ids.MEMORIES) else None
        if record is not None and record.kind == "decision" and record.target and record.status == "active":
            active.setdefault((record.ns, record.target), []).append(entity)
    for (ns, target), entities in active.items():
        if len(entities) > 1:
            yield CheckFinding(
                "MEM-9", entities[0], f"target {target!r} in {ns} has {len(entities)} active decisions"
            )


def _targets_name_their_active_decision(state: MemoryState) -> Iterator[CheckFinding]:
    for entity, value in state.values.items():
        target = target_of(value) if entity.startswith(ids.TARGETS) else None
        if target is None or target.active is None:
            continue
        nsh = ids.namespace_hash(target.ns)
        record = memory_of(state.values.get(ids.memory_entity(nsh, ids.MemoryId(target.active))))
        if record is None or record.status != "active" or record.target != target.target:
            yield CheckFinding("MEM-9", entity, f"it names {target.active}, which is no active decision of it")


def _index_is_true(state: MemoryState) -> Iterator[CheckFinding]:
    stored = {entity for entity, value in state.values.items() if ids.parts_of(entity) and memory_of(value)}
    for entity in sorted(stored - state.indexed):
        yield CheckFinding("MEM-5", entity, "the index lacks it. Run 'stemmadb memory reindex'.")
    for entity in sorted(one for one in state.indexed - stored if one.startswith(ids.MEMORIES)):
        yield CheckFinding("MEM-5", entity, "the index has it and the store does not. Run 'stemmadb memory reindex'.")


CHECKS: Final[Sequence[Callable[[MemoryState], Iterator[CheckFinding]]]] = (
    _records_are_valid,
    _memories_have_a_namespace,
    _vectors_have_a_memory,
    _targets_have_one_active_decision,
    _targets_name_their_active_decision,
    _index_is_true,
)
