"""What an MCP client can read without calling a tool: the decisions about a target, and the tasks of the plan.

Everything is a JSON object, so that texts of memories are JSON strings there, labelled with their authority.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from stemmadb.memory.operations.memories import StoredMemory
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.operations.plan_store import PlanStore
from stemmadb.memory.operations.targets import active_targets, decisions_about
from stemmadb.memory.rules import instants, roles
from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.roles import MemoryCaller

DECISIONS: Final = "memory://decisions/"
TASKS: Final = "memory://tasks"
JSON: Final = "application/json"
TEMPLATE: Final = DECISIONS + "{target}"
LISTED_MAX: Final = 500
"""Targets in a listing; any other can be read all the same."""


class MemoryResource(NamedTuple):
    """A resource that a client may read."""

    uri: str
    name: str
    description: str


async def list_resources(memory: MemorySpace, caller: MemoryCaller, ns: str) -> list[MemoryResource]:
    """The plan, and each target that has an active decision."""
    targets = await active_targets(memory, caller, ns)
    plan = MemoryResource(TASKS, "tasks", f"The tasks of the plan of {ns}")
    return [plan] + [
        MemoryResource(DECISIONS + quote(one.target, safe=""), one.target, "The decisions about this target")
        for one in targets[:LISTED_MAX]
    ]


async def read_resource(memory: MemorySpace, caller: MemoryCaller, ns: str, uri: str) -> str:
    """The JSON text of a resource; `InvalidRequest` if there is none of this address."""
    if uri.rstrip("/") == TASKS:
        return _json(await _tasks(memory, caller, ns))
    target = unquote(uri.removeprefix(DECISIONS)) if uri.startswith(DECISIONS) else ""
    if not target:
        raise InvalidRequest(f"There is no resource {uri}. Resources are {TASKS} and {TEMPLATE}.", field="uri")
    version, found = await decisions_about(memory, caller, ns, target)
    active = next((one.id for one in found if one.memory.status == "active"), None)
    shown = [_decision(one) for one in found]
    return _json({"target": target, "active": active, "decisions": shown, "version": version})


def _decision(one: StoredMemory) -> dict[str, Any]:
    memory = one.memory
    return {
        "id": one.id,
        "status": memory.status,
        "authority": memory.authority,
        "title": memory.title,
        "rationale": memory.text,
        "consequences": memory.consequences,
        "created_at": instants.write(memory.created_at),
    }


async def _tasks(memory: MemorySpace, caller: MemoryCaller, ns: str) -> dict[str, Any]:
    roles.check_namespace(caller, ns)
    plan = await PlanStore(memory.space, ns, now=memory.clock.now).read()
    return {"ns": ns, "tasks": {file.name: value for file, value in sorted(plan.items()) if file.kind == "task"}}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
