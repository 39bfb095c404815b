"""Plans over the memory server's socket: `plan_read` and `plan_apply`, for the commands of task files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stemmadb.memory.interfaces.command.command_context import CommandContext, CommandOperation
from stemmadb.memory.operations.plan_store import PlanStore
from stemmadb.memory.rules import roles
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.tasks.decide import FileChange
from stemmadb.memory.rules.tasks.paths import INDEX, file_at, refusal_of


async def plan_read(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns. Every file of the plan with what is stored."""
    store, _ = _store(context, arguments)
    return {"files": list((await store.read()).items())}


async def plan_apply(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: ns, changes. What became of each change. One at a time for a plan."""
    roles.check_role(context.caller, "agent")
    store, name = _store(context, arguments)
    try:
        changes = msgspec.convert(arguments.get("changes"), list[FileChange])
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(f"changes: {wrong}.", field="changes") from None
    for change in changes:
        path = change.file.path
        if refusal_of(path) is not None or path == INDEX or file_at(path) != change.file:
            raise InvalidRequest(f"{path!r} is no file of a plan.", field="changes")
    async with context.memory.alone(f"plan {name}"):
        made, _ = await store.apply(changes)
    return {
        "writes": list(made.writes.items()),
        "clashes": list(made.clashes.items()),
        "refusals": list(made.refusals.items()),
        "notes": made.notes,
    }


def _store(context: CommandContext, arguments: Mapping[str, Any]) -> tuple[PlanStore, str]:
    name = read_name(arguments.get("ns"), "ns")
    roles.check_namespace(context.caller, name)
    return PlanStore(context.memory.space, name, now=context.memory.clock.now), name


PLAN_OPERATIONS: Final[dict[str, CommandOperation]] = {"plan_apply": plan_apply, "plan_read": plan_read}
