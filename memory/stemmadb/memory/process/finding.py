"""Finding the memory server of a data directory, or starting one; and asking it.

Two programs that start one at once are decided by the lock of the directory: the loser finds the winner.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from stemmadb.memory.process.places import make_private
from stemmadb.protocol.errors import DirectoryHeld, Forbidden, Internal, Malformed, NotFound, StemmaError, Unavailable
from stemmadb.server.serving import presence
from stemmadb.server.storage.directory import LOCK, is_held

SECRET_VARIABLE: Final = "AGENT_MEMORY_SECRET"  # noqa: S105  # the name of a variable
NAME: Final = "memory"
START_SECONDS: Final = 20.0
ANSWER_SECONDS: Final = 900.0
IDLE_SECONDS: Final = 600.0
LOG: Final = "memory-server.log"
_POLL_SECONDS: Final = 0.02
_started: Final[list[subprocess.Popen[bytes]]] = []
"""Memory servers that this process started: they outlive it, and Python must not warn about that."""


class MemoryNote(msgspec.Struct, frozen=True, kw_only=True):
    """What `server.json` says of a memory server."""

    sockets: dict[str, str]
    """Where each memory space is asked for, by its name: with workers they may be in several processes."""
    spaces: dict[str, str]
    http: list[str] = []
    mcp: list[str] = []
    cooldown: float | None = None
    """Seconds between two writes of a secret by MCP tools."""

    def socket_of(self, space: str | None) -> str:
        """Where a space is asked for; what is not the name of one is refused wherever it is asked."""
        return self.sockets.get(space or "", next(iter(self.sockets.values())))


REFUSALS: Final[Mapping[str, type[StemmaError]]] = {
    "bad_request": Malformed,
    "not_found": NotFound,
    "forbidden": Forbidden,
    "internal": Internal,
}
"""How the codes of a memory server are raised; any other is `Unavailable`."""


def find(data: Path) -> MemoryNote | None:
    """The memory server that runs on a directory; `DirectoryHeld` if a server runs there that serves no memory."""
    running = presence.find(data)
    if running is None:
        return None
    note = running.companions.get(NAME)
    if note is None:
        raise DirectoryHeld(
            f"Process {running.pid} serves {data} without agent memory. "
            f"Stop it and start it again with: stemmadb serve --data {data} --memory memory",
            directory=str(data),
            holder=f"process {running.pid}",
        )
    return msgspec.convert(note, MemoryNote)


def find_or_start(data: Path, *, seconds: float = START_SECONDS) -> MemoryNote:
    """The memory server of a directory, started in the background if none runs; `Unavailable` if it does not come."""
    started: subprocess.Popen[bytes] | None = None
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = find(data)
        if found is not None:
            return found
        if started is None and not is_held(data):
            started = _start(data)
            _started.append(started)
        elif started is not None and started.poll() is not None and not is_held(data):
            raise Unavailable(f"The memory server ended at once. See {data / LOG}.")
        time.sleep(_POLL_SECONDS)
    holder = _holder(data)
    raise Unavailable(f"No memory server came up on {data} within {seconds:g} s{holder}. See {data / LOG}.")


def _holder(data: Path) -> str:
    try:
        return f"; process {(data / LOCK).read_text().strip()} holds the directory" if is_held(data) else ""
    except OSError:
        return ""


def _start(data: Path) -> subprocess.Popen[bytes]:
    """Detached: it outlives the program that started it, and stops by itself when nobody uses it."""
    make_private(data)
    command = [sys.executable, "-m", "stemmadb.client.cli", "memory", "serve", "--data", str(data)]
    environment = {name: value for name, value in os.environ.items() if name != SECRET_VARIABLE}
    descriptor = os.open(data / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603  # our own command
            [*command, "--idle", str(IDLE_SECONDS), *_settings_of_the_dead(data)],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env=environment,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)


def _settings_of_the_dead(data: Path) -> list[str]:
    """What takes the place of a killed memory server has its cooldown: the note of the dead one is still there."""
    try:
        left = msgspec.json.decode((data / presence.NAME).read_bytes(), type=presence.Presence)
        note = msgspec.convert(left.companions.get(NAME), MemoryNote)
    except (OSError, ValueError):
        return []
    return [] if note.cooldown is None else ["--cooldown", str(note.cooldown)]


class MemoryClient:
    """A connection to a memory server that speaks the protocol `call`: `with MemoryClient(...) as client`."""

    def __init__(self, note: MemoryNote, *, secret: str | None, space: str | None = None) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket.connect(note.socket_of(space))
        except OSError as failed:
            self._socket.close()
            where = note.socket_of(space)
            raise Unavailable(f"The memory server does not answer on {where}: {failed.strerror}.") from None
        self._stream = self._socket.makefile("rwb")
        self._number = 0
        self._send({"protocol": "call", "secret": secret, "space": space})

    def ask(self, operation: str, arguments: Mapping[str, object]) -> Mapping[str, Any]:
        """The result; the error that the memory server answered with otherwise."""
        self._number += 1
        try:
            self._send({"id": self._number, "operation": operation, "arguments": arguments})
            line = self._stream.readline()
        except OSError as failed:
            raise Unavailable(f"The memory server went away ({failed}). Try again.") from None
        if not line:
            raise Unavailable("The memory server went away. Try again.")
        answer = msgspec.json.decode(line)
        if "error" in answer:
            raise REFUSALS.get(answer["error"]["code"], Unavailable)(answer["error"]["message"])
        result: Mapping[str, Any] = answer["result"]
        return result

    def _send(self, message: Mapping[str, object]) -> None:
        self._stream.write(msgspec.json.encode(message) + b"\n")
        self._stream.flush()

    def __enter__(self) -> MemoryClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._socket.close()
