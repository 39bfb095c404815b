"""The operations of the command line: arguments as JSON, answers as JSON. Add one to `OPERATIONS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stemmadb.memory.interfaces.command.command_context import CommandContext, CommandOperation
from stemmadb.memory.interfaces.command.decision_operations import DECISION_OPERATIONS
from stemmadb.memory.interfaces.command.plan_operations import PLAN_OPERATIONS
from stemmadb.memory.interfaces.json import answers
from stemmadb.memory.operations import checking, forgetting, histories, namespaces, searching, sweeping
from stemmadb.memory.operations.moments import read_moment
from stemmadb.memory.operations.searching import FoundMemory, SearchQuery
from stemmadb.memory.rules import ids, instants, roles
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.records import KINDS, stored
from stemmadb.memory.rules.refusals import InvalidRequest, NotAllowed
from stemmadb.memory.rules.roles import MemoryCaller

LIMIT_MAX: Final = 1_000
STAYS: Final = (
    "Ids, hashes and times stay, and so do backups, exports and working copies that were made before. "
    "See the guide on agent memory."
)


async def search(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: query, ns (a list; all if empty), kinds, limit, at."""
    memory, caller = context.memory, context.caller
    names = [read_name(name, "ns") for name in arguments.get("ns") or ()]
    kinds = list(arguments.get("kinds") or ())
    if not set(kinds) <= set(KINDS):
        raise InvalidRequest(f"kinds are {', '.join(KINDS)}.", field="kinds")
    limit = arguments.get("limit", 20)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise InvalidRequest(f"limit must be a whole number from 1 to {LIMIT_MAX}.", field="limit")
    at = arguments.get("at")
    moment = None if at is None else await read_moment(memory, str(at))
    searching.check_namespaces(caller, names)
    if not names:
        names = [one.name for one in await namespaces.list_namespaces(memory, caller)]
    query = SearchQuery(names, text=arguments.get("query"), kinds=kinds, limit=limit, at=moment)
    answer = await searching.search(memory, caller, query)
    return {
        "memories": [_found(one) for one in answer.found],
        "version": answer.version,
        "now": instants.write(answer.now),
        "partial": answer.is_partial,
        "degraded": answer.is_degraded,
    }


async def forget(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: id or ns, keep_history. Waits until the bytes are gone."""
    memory, caller = context.memory, context.caller
    roles.check_role(caller, "agent")
    keeps = bool(arguments.get("keep_history"))
    if arguments.get("ns") is not None:
        roles.check_role(caller, "admin")
        name = read_name(arguments["ns"], "ns")
        queued = await forgetting.delete_namespace(memory, caller, name, keeps_history=keeps)
    else:
        uuid = ids.read_memory_id(arguments.get("id"))
        queued = await forgetting.forget_memory(memory, caller, uuid, keeps_history=keeps)
    if queued is not None:
        await context.job.erased(queued)
    return {"forgotten": True, "erased": not keeps, "stays": STAYS}


async def history(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: id."""
    changes = await histories.history(context.memory, context.caller, ids.read_memory_id(arguments.get("id")))
    return {"changes": [one._asdict() | {"time": instants.write(one.time)} for one in changes]}


async def list_namespaces(context: CommandContext, _arguments: Mapping[str, Any]) -> Mapping[str, object]:
    found = await namespaces.list_namespaces(context.memory, context.caller)
    return {"namespaces": [_times_written(stored(one)) for one in found]}


async def check(context: CommandContext, _arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Its findings name entities of every namespace."""
    _check_is_unlimited(context.caller, "a check looks at all of them")
    version, findings = await checking.check(context.memory)
    return {"version": version, "findings": [one._asdict() for one in findings]}


def _check_is_unlimited(caller: MemoryCaller, why: str) -> None:
    if caller.namespaces is not None:
        raise NotAllowed(f"This secret is limited to namespaces, and {why}.")


async def sweep(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: erase. Somebody asked for it, so it runs at once, but never under a clock that has jumped."""
    roles.check_role(context.caller, "admin")
    _check_is_unlimited(context.caller, "a sweep deletes in all of them")
    clock = context.memory.clock
    if not context.guard.check(now=clock.now(), monotonic=clock.monotonic()):
        raise NotAllowed("The clock has moved by more than 5 minutes since the memory server started. Restart it.")
    report = await sweeping.sweep(context.memory, context.caller, erases=bool(arguments.get("erase")))
    for entry in report.queued:
        await context.job.erased(entry)
    return {"memories": report.memories, "namespaces": report.namespaces, "calls": report.calls}


async def reindex(context: CommandContext, _arguments: Mapping[str, Any]) -> Mapping[str, object]:
    roles.check_role(context.caller, "agent")
    return {"version": await context.memory.index.rebuild()}


async def json_request(context: CommandContext, arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Arguments: request. What is wrong with the request is its answer too."""
    return await answers.answer(context.memory, context.caller, arguments.get("request"))


async def about(context: CommandContext, _arguments: Mapping[str, Any]) -> Mapping[str, object]:
    """Who the caller is, and which space this is."""
    caller = context.caller
    limit: Sequence[str] | None = None if caller.namespaces is None else sorted(caller.namespaces)
    space = context.memory.space.did
    return {"role": caller.role, "name": caller.name, "namespaces": limit, "space": space}


def _found(one: FoundMemory) -> dict[str, object]:
    return {"id": one.id, "score": one.score} | _times_written(stored(one.memory))


def _times_written(value: dict[str, Any]) -> dict[str, Any]:
    times = {name: instants.write(value[name]) for name in ("created_at", "expires_at") if name in value}
    return {name: item for name, item in value.items() if name != "v"} | times


OPERATIONS: Final[dict[str, CommandOperation]] = {
    "about": about,
    "check": check,
    "forget": forget,
    "history": history,
    "namespaces": list_namespaces,
    "op": json_request,
    "reindex": reindex,
    "search": search,
    "sweep": sweep,
    **DECISION_OPERATIONS,
    **PLAN_OPERATIONS,
}
