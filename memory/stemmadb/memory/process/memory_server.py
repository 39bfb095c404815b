"""The memory server: everything that runs beside the service of `stemmadb serve --memory`."""

from __future__ import annotations

import asyncio
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiohttp import web

from stemmadb.memory.interfaces.command.call_protocol import answer_line
from stemmadb.memory.interfaces.command.command_context import CommandContext
from stemmadb.memory.interfaces.http.guards import HostGuard
from stemmadb.memory.interfaces.http.plugin import make_app
from stemmadb.memory.interfaces.mcp.tool_calls import ToolCalls
from stemmadb.memory.operations.memory_space import SystemClock
from stemmadb.memory.process import places
from stemmadb.memory.process.audit_file import AuditFile
from stemmadb.memory.process.control_server import ControlGreeting, ControlServer, control_listener, send_line
from stemmadb.memory.process.http_listener import ListenAddress, listening
from stemmadb.memory.process.mcp_proxy import ACCEPTED
from stemmadb.memory.process.opened_memory import OpenedMemory, opened_memory
from stemmadb.memory.process.secret_file import SecretFile
from stemmadb.memory.rules.cooldown import COOLDOWN_SECONDS, Cooldown
from stemmadb.memory.rules.ids import numbered_id
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.records import Via
from stemmadb.memory.rules.refusals import InvalidRequest, Refusal
from stemmadb.memory.rules.roles import ROLES, MemoryCaller, Role, check_role
from stemmadb.server.serving.companions import RunningServer
from stemmadb.server.serving.local_dial import URL, local_dial

NAME: Final = "memory"
MCP_SESSION: Final = "stemmadb.memory.interfaces.mcp.mcp_session"
"""Imported when the first MCP client comes: the `mcp` package takes a second to import."""
MCP_LISTENER: Final = "stemmadb.memory.process.mcp_listener"
"""Imported when MCP is served over HTTP."""
IDLE_LOOK_SECONDS: Final = 1.0


class HttpWish(NamedTuple):
    """A listener of the plugin interface, for one memory space."""

    space: str
    address: ListenAddress
    listener: socket.socket | None = None
    """The socket, where the parent of workers has opened it."""


class McpWish(NamedTuple):
    """A listener of MCP over HTTP, for one memory space and by default for one namespace."""

    space: str
    ns: str
    address: ListenAddress
    listener: socket.socket | None = None


class MemoryShare(NamedTuple):
    """The part of a memory server in one worker."""

    spaces: Sequence[str]
    """Those of the worker, by name."""
    made: Sequence[str]
    """Those of them that have just got a key: the worker makes the space."""
    path: str
    """Where the part is asked."""
    listener: socket.socket | None = None
    """The socket there."""


class MemoryOptions(NamedTuple):
    """How a memory server is started."""

    spaces: Sequence[str] = (places.SPACE,)
    http: Sequence[HttpWish] = ()
    mcp: Sequence[McpWish] = ()
    origins: tuple[str, ...] = ()
    """Web pages that may use MCP over HTTP."""
    allowed_hosts: tuple[str, ...] = ()
    idle_seconds: float | None = None
    """It stops itself after so long without a client."""
    clock_shift_ms: int = 0
    cooldown_seconds: float = COOLDOWN_SECONDS
    """How long a secret waits between two writes by MCP tools."""
    evidence_min: int = 0
    """Pieces of evidence that a proposal needs before it is accepted."""
    requires_secret: bool = False
    """Without a secret not even reading is allowed, except over HTTP, which has none."""
    test_ids: str | None = None
    """Ids are made from this word by counting: for tests, on a new data directory."""
    share: MemoryShare | None = None
    """What of it runs in this worker; None: all of it, in the only process."""


class MemoryServer:
    """Holds the opened memories and says who a caller is. Interfaces get it from `memory_server`."""

    def __init__(
        self, opened: Mapping[str, OpenedMemory], secrets: SecretFile, audit: AuditFile, options: MemoryOptions
    ) -> None:
        self.opened = opened
        self.audit = audit
        self.secrets = secrets
        self.options = options
        self.cooldown = Cooldown(options.cooldown_seconds)

    def memory(self, space: str | None) -> OpenedMemory:
        """The memory of a space; of the only one, if none is named."""
        names = self.options.spaces
        chosen = names[0] if space is None and len(names) == 1 else space
        if chosen is None or chosen not in self.opened:
            raise InvalidRequest(f"Name one of the memory spaces: {', '.join(sorted(names))}.", field="space")
        return self.opened[chosen]

    def caller(self, secret: str | None, via: Via) -> MemoryCaller:
        """Decided on every call."""
        caller = self.secrets.caller(secret, via)
        if self.options.requires_secret:
            check_role(caller, "agent")
        return caller

    async def serve_calls(
        self, greeting: ControlGreeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The protocol `call` of the socket: what commands ask (`interfaces.command`)."""
        while line := await reader.readline():
            send_line(writer, await self._answer(greeting, line))
            await writer.drain()

    async def serve_mcp(
        self, greeting: ControlGreeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The protocol `mcp` of the socket: JSON-RPC lines that `stemmadb mcp` copies (`interfaces.mcp`)."""
        try:
            opened, ns = self.memory(greeting.space), read_name(greeting.options.get("ns"), "ns")
        except Refusal as refused:
            send_line(writer, {"error": {"code": "bad_request", "message": str(refused)}})
            return
        lowered: Role = "admin" if greeting.options.get("role") not in ROLES else greeting.options["role"]

        def caller() -> MemoryCaller:
            return self.caller(greeting.secret, "mcp").lowered(lowered)

        send_line(writer, ACCEPTED)
        name = str(uuid.uuid4())
        write_as = partial(opened.writers.memory_of, name)
        calls = ToolCalls(opened.memory, ns, caller, self.cooldown, self.audit, write_as)
        session = await asyncio.to_thread(import_module, MCP_SESSION)
        try:
            await session.serve_session(calls, reader, writer)
        finally:
            await opened.writers.end(name)

    async def _answer(self, greeting: ControlGreeting, line: bytes) -> dict[str, object]:
        try:
            opened, caller = self.memory(greeting.space), self.caller(greeting.secret, "command")
        except Refusal as refused:
            return {"id": None, "error": {"code": "forbidden", "message": str(refused)}}
        return await answer_line(CommandContext(opened.memory, opened.job, opened.guard, caller), line)


@asynccontextmanager
async def memory_server(running: RunningServer, options: MemoryOptions) -> AsyncIterator[Mapping[str, object]]:
    """Opens the memories, then every listener; gives what `server.json` says of them."""
    dial = local_dial(running.service, is_open=lambda: not running.stop.is_set())
    clock = SystemClock(options.clock_shift_ms)
    if options.clock_shift_ms:
        print(f"The clock of agent memory is shifted by {options.clock_shift_ms} ms, for tests.", file=sys.stderr)
    share = options.share
    async with AsyncExitStack() as stack:
        opened: dict[str, OpenedMemory] = {}
        for space in options.spaces if share is None else share.spaces:
            ids = None if options.test_ids is None else partial(next, _test_ids(f"{options.test_ids} {space}"))
            is_new = share is not None and space in share.made
            one = opened_memory(dial, url=URL, data=running.data, space=space, clock=clock, new_id=ids, is_new=is_new)
            opened[space] = await stack.enter_async_context(one)
            opened[space].memory.evidence_min = options.evidence_min
        audit = AuditFile(running.data)
        stack.callback(audit.close)
        server = MemoryServer(opened, SecretFile(running.data), audit, options)
        if options.clock_shift_ms:
            audit.write({"clock_shift_ms": options.clock_shift_ms})
        control = ControlServer({"call": server.serve_calls, "mcp": server.serve_mcp})
        urls = [await stack.enter_async_context(_http(server, wish, control)) for wish in options.http]
        for url in urls:
            print(f"Agent memory is served on {url}", file=sys.stderr)
        mcp_urls = [await stack.enter_async_context(await _mcp(server, wish, control)) for wish in options.mcp]
        for url in mcp_urls:
            print(f"MCP is served on {url}", file=sys.stderr)
        path = str(places.control_socket(running.data)) if share is None else share.path
        given = None if share is None else share.listener
        listener = stack.enter_context(control_listener(Path(path)) if given is None else given)
        await stack.enter_async_context(control.listening(listener))
        if options.idle_seconds is not None:
            idling = asyncio.create_task(_stop_when_idle(running, server, control, options.idle_seconds))
            stack.callback(idling.cancel)
        spaces = {name: one.memory.space.did for name, one in opened.items()}
        sockets, cooldown = dict.fromkeys(opened, path), options.cooldown_seconds
        yield {NAME: {"sockets": sockets, "spaces": spaces, "http": urls, "mcp": mcp_urls, "cooldown": cooldown}}


def _test_ids(word: str) -> Iterator[str]:
    print("The ids of agent memory are counted, for tests: anybody can guess them.", file=sys.stderr)
    return (numbered_id(word, number) for number in count(1))


def _http(server: MemoryServer, wish: HttpWish, control: ControlServer) -> Any:
    opened = server.memory(wish.space)

    def make(guard: HostGuard) -> web.Application:
        return make_app(opened.memory, opened.job, guard, control.used)

    return listening(wish.address, make, server.options.allowed_hosts, wish.listener)


async def _mcp(server: MemoryServer, wish: McpWish, control: ControlServer) -> Any:
    opened, options = server.memory(wish.space), server.options
    listener = await asyncio.to_thread(import_module, MCP_LISTENER)

    def calls_of(request: Any) -> ToolCalls:
        def caller() -> MemoryCaller:
            return server.caller(request.secret, "mcp")

        ns = wish.ns if request.ns is None else read_name(request.ns, "ns")
        write_as = partial(opened.writers.memory_of, request.session)
        return ToolCalls(opened.memory, ns, caller, server.cooldown, server.audit, write_as)

    return listener.mcp_listening(
        wish.address,
        calls_of,
        allowed_hosts=options.allowed_hosts,
        origins=options.origins,
        used=control.used,
        given=wish.listener,
    )


async def _stop_when_idle(
    running: RunningServer, server: MemoryServer, control: ControlServer, seconds: float
) -> None:
    """Never with a forget queued."""
    while not running.stop.is_set():
        await asyncio.sleep(min(IDLE_LOOK_SECONDS, seconds))
        is_erasing = any(one.job.oldest is not None for one in server.opened.values())
        if control.idle_seconds >= seconds and not is_erasing:
            running.stop.set()
