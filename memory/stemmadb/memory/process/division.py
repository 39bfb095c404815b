"""A memory server that is divided among workers: each memory space is opened by the worker that serves it.

The parent decides which that is, so a new space gets its name and its key here; the worker makes it. The sockets are
the parent's, too: who connects while a worker is started again waits there, and a worker removes no path.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from stemmadb.client import Identity
from stemmadb.client.keys.names import Names
from stemmadb.client.keys.ring import KeyRing
from stemmadb.memory.process import places
from stemmadb.memory.process.control_server import control_listener
from stemmadb.memory.process.http_listener import listener_on
from stemmadb.memory.process.memory_server import NAME, MemoryOptions, MemoryShare, memory_server
from stemmadb.protocol import identity
from stemmadb.server.serving.companions import CompanionShare, DividedServer, RunningServer
from stemmadb.server.serving.local_dial import URL
from stemmadb.server.storage.sqlite.storage import SPACES


class MemoryBeside:
    """Agent memory as a `Companion` of a server."""

    def __init__(self, options: MemoryOptions) -> None:
        self.options = options

    def __call__(self, running: RunningServer) -> AbstractAsyncContextManager[Mapping[str, object]]:
        return memory_server(running, self.options)

    @contextmanager
    def divided(self, server: DividedServer) -> Iterator[Mapping[int, CompanionShare]]:
        """The share of each worker that has a memory space; the sockets are open while the block runs."""
        spaces: dict[int, list[str]] = {}
        made: set[str] = set()
        for name in self.options.spaces:
            number, is_made = _worker_of(server, name)
            spaces.setdefault(number, []).append(name)
            made |= {name} if is_made else set()
        with ExitStack() as stack:
            shares: dict[int, CompanionShare] = {}
            for number, names in spaces.items():
                path = places.control_socket(server.data, worker=number)
                share = MemoryShare(names, [name for name in names if name in made], str(path))
                shares[number] = self._share(share, stack)
            yield shares

    def _share(self, share: MemoryShare, stack: ExitStack) -> CompanionShare:
        options = self.options._replace(
            share=share,
            http=[wish for wish in self.options.http if wish.space in share.spaces],
            mcp=[wish for wish in self.options.mcp if wish.space in share.spaces],
        )
        sockets = [stack.enter_context(control_listener(Path(share.path)))]
        addresses = [*(wish.address for wish in options.http), *(wish.address for wish in options.mcp)]
        sockets += [stack.enter_context(listener_on(address)) for address in addresses]
        return CompanionShare(NAME, {"options": msgspec.to_builtins(options, enc_hook=str)}, sockets)


def shared(arguments: Mapping[str, Any], sockets: Sequence[socket.socket]) -> MemoryBeside:
    """What a worker runs, from the share that its parent made."""
    options = msgspec.convert(arguments["options"], MemoryOptions, dec_hook=lambda kind, value: kind(value))
    assert options.share is not None, "a worker has a share"
    control, *rest = sockets
    http, mcp = rest[: len(options.http)], rest[len(options.http) :]
    return MemoryBeside(
        options._replace(
            share=options.share._replace(listener=control),
            http=[wish._replace(listener=sock) for wish, sock in zip(options.http, http, strict=True)],
            mcp=[wish._replace(listener=sock) for wish, sock in zip(options.mcp, mcp, strict=True)],
        )
    )


def _worker_of(server: DividedServer, name: str) -> tuple[int, bool]:
    """The worker of the space that a name means on this server (NAME-1), and whether it has got its key just now.

    A space may be given by its DID too.
    """
    if name.startswith(identity.PREFIX):
        return server.owner(identity.did_of(identity.public_key(name))), False
    names, ring = Names(server.data / "keys"), KeyRing(server.data / "keys")
    known = names.on(server.did, name)
    if known is None:  # the server may have got another key since
        before = names.find(URL, name)
        known = before if before is not None and (server.data / SPACES / before).exists() else None
    if known is not None:
        return server.owner(known), False
    key = Identity.make()
    ring.keep_space_key(key)
    return server.owner(names.remember(URL, server.did, name, key.did)), True
