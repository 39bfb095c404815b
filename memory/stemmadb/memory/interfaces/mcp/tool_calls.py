"""What every call of a tool goes through: the audit, the role, the cooldown, and errors as answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from stemmadb.memory.interfaces.mcp.resources import MemoryResource, list_resources, read_resource
from stemmadb.memory.interfaces.mcp.tool_schemas import CONTRACTS
from stemmadb.memory.interfaces.mcp.tools import TOOLS, ToolAnswer, ToolCall
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.rules import instants, roles
from stemmadb.memory.rules.cooldown import Cooldown
from stemmadb.memory.rules.refusals import IsolationViolation, NotAllowed, Refusal
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.protocol.errors import StemmaError

T = TypeVar("T")
ID_ARGUMENTS: Final = ("id", "proposal_id", "old_decision_ids")
"""Arguments that hold ids only; the audit shows these and no others."""
_UUID_CHARACTERS_MAX: Final = 40


class AuditLog(Protocol):
    """Where calls are noted: one line before and one after each."""

    def write(self, entry: Mapping[str, object]) -> None: ...


WriterOf = Callable[[MemoryCaller, Mapping[str, Any]], Awaitable[MemorySpace]]
"""The memory as a caller writes it, with the caller's own key; the second argument is what the client says it is."""


class ToolCalls:
    """The tools of one client. `caller` is asked on every call, so that a revoked secret ends at once."""

    def __init__(
        self,
        memory: MemorySpace,
        ns: str,
        caller: Callable[[], MemoryCaller],
        cooldown: Cooldown,
        audit: AuditLog,
        writer: WriterOf | None = None,
    ) -> None:
        self._memory = memory
        self._ns = ns
        self._caller = caller
        self._cooldown = cooldown
        self._audit = audit
        self._writer = writer

    async def list_resources(self) -> list[MemoryResource]:
        """What can be read; a refusal is raised."""
        return await self._audited("resources/list", lambda caller: list_resources(self._memory, caller, self._ns))

    async def read_resource(self, uri: str) -> str:
        """The JSON text of a resource; a refusal is raised."""
        return await self._audited(
            "resources/read", lambda caller: read_resource(self._memory, caller, self._ns, uri)
        )

    async def _audited(self, what: str, work: Callable[[MemoryCaller], Awaitable[T]]) -> T:
        number, verdict = str(uuid.uuid4()), "failed"
        try:
            caller = self._caller()
            self._note_call(number, caller, what, {})
            found = await work(caller)
            verdict = "success"
        except Refusal as refused:
            verdict = type(refused).__name__
            raise
        finally:
            self._audit.write({"call": number, "verdict": verdict})
        return found

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        key: str | None = None,
        client: Mapping[str, Any] = MappingProxyType({}),
    ) -> ToolAnswer:
        """The answer of a tool whose arguments fit its schema. A refusal is an answer with the status `error`."""
        number = str(uuid.uuid4())
        verdict = "failed"
        caller = MemoryCaller(role="viewer", name="viewer", via="mcp")
        try:
            refused_before: Refusal | None = None
            try:
                caller = self._caller()
            except Refusal as refused:
                refused_before = refused
            self._note_call(number, caller, tool, arguments)
            if refused_before is not None:
                raise refused_before
            answer = await self._done(caller, tool, arguments, key, number, client)
            verdict = "success"
        except Refusal as refused:
            verdict = type(refused).__name__
            return {"status": "error", "message": _said(refused)}
        except StemmaError as failed:
            verdict = failed.code
            return {"status": "error", "message": failed.message}
        finally:
            self._audit.write({"call": number, "verdict": verdict})
        unknown = sorted(set(arguments) - set(CONTRACTS[tool].arguments["properties"]))
        warnings = {"warnings": [f"unknown field: {name}" for name in unknown]} if unknown else {}
        return {"status": "success", **answer, **warnings}

    async def _done(
        self,
        caller: MemoryCaller,
        tool: str,
        arguments: Mapping[str, Any],
        key: str | None,
        number: str,
        client: Mapping[str, Any],
    ) -> ToolAnswer:
        call = ToolCall(self._memory, caller, self._ns, arguments)
        if not CONTRACTS[tool].writes:
            return await TOOLS[tool](call)
        roles.check_role(caller, "admin" if tool == "accept_proposal" else "agent")
        once = None if key is None else Once(key, caller.name, tool, {"ns": self._ns, "arguments": dict(arguments)})
        call = call._replace(once=once, note=f"{tool} by {caller.name} ({caller.role}), call {number}")
        if self._cooldown.seconds <= 0:
            return await self._written(call, tool, client)
        async with self._memory.alone(f"writes of {caller.name}"):
            clock = self._memory.clock
            self._cooldown.check(caller.name, clock.monotonic())
            try:
                answer = await self._written(call, tool, client)
            except asyncio.CancelledError:  # by the client, and the commit may be on its way
                self._cooldown.start(caller.name, clock.monotonic())
                raise
            self._cooldown.start(caller.name, clock.monotonic())
        return answer

    async def _written(self, call: ToolCall, tool: str, client: Mapping[str, Any]) -> ToolAnswer:
        """Opens the caller's own connection, unless it is open."""
        memory = self._memory if self._writer is None else await self._writer(call.caller, client)
        return await TOOLS[tool](call._replace(memory=memory))

    def _note_call(self, number: str, caller: MemoryCaller, tool: str, arguments: Mapping[str, Any]) -> None:
        """No text of memories, no targets."""
        given = [arguments[name] for name in ID_ARGUMENTS if name in arguments]
        ids = [one for some in given for one in (some if isinstance(some, list) else [some])]
        self._audit.write(
            {
                "time": instants.write(self._memory.clock.now()),
                "call": number,
                "agent": caller.name,
                "role": caller.role,
                "tool": tool,
                "ids": [one for one in ids if isinstance(one, str) and len(one) <= _UUID_CHARACTERS_MAX],
            }
        )


def _said(refused: Refusal) -> str:
    """The contract's word for it comes first."""
    if isinstance(refused, NotAllowed) and not isinstance(refused, IsolationViolation):
        return f"Permission Denied: {refused}"
    return str(refused)
