"""A worker's Unix socket: takes the connections that other workers pass on, and answers their questions.

What does not know the secret is closed and logged, and nothing else happens.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from stemmadb.server.log_events import Log
from stemmadb.server.serving.ownership.port import PassedConnection
from stemmadb.server.serving.workers import opening
from stemmadb.server.serving.workers.opening import HEAD_BYTES, LENGTH, OPENING_BYTES_MAX, SECRET_BYTES, Opening

LOG: Final = Log("workers")
BACKLOG: Final = 1_024
OPENING_SECONDS: Final = 1.0
"""A connection whose opening is not whole by then is closed."""
_CREDENTIALS: Final = struct.Struct("3i")

Adopt: TypeAlias = Callable[[socket.socket, PassedConnection], Awaitable[None]]
Answer: TypeAlias = Callable[[bytes], Awaitable[bytes]]


class Mailbox:
    """Listens while it is open. Used from one event loop."""

    def __init__(self, path: Path, secret: bytes, *, adopt: Adopt, answer: Answer) -> None:
        self._path = path
        self._secret = secret
        self._adopt = adopt
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._arriving: set[_Arriving] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None

    def open(self) -> None:
        """Replaces the socket that a killed worker has left."""
        self._path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        sock.bind(os.fspath(self._path))
        self._path.chmod(0o600)
        sock.listen(BACKLOG)
        self._listening = sock
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Nothing more is taken."""
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None
            self._path.unlink(missing_ok=True)
        for arriving in tuple(self._arriving):
            arriving.end()

    def _accept(self) -> None:
        assert self._listening is not None, "it is read while it is open"
        try:
            sock, _ = self._listening.accept()
        except OSError:  # it has left already, or there is no descriptor now
            return
        self._arriving.add(_Arriving(self._loop, sock, self._secret, self._arrived, self._arriving.discard))

    def _arrived(self, sock: socket.socket, came: Opening, descriptors: list[int]) -> None:
        if came.kind == "question":
            self._run(self._reply(sock, came.data))
            return
        if came.kind == "socket":
            sock.close()
            sock = socket.socket(fileno=descriptors.pop())
        self._run(self._take(sock, PassedConnection(came.data, came.address)))

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, sock: socket.socket, passed: PassedConnection) -> None:
        try:
            await self._adopt(sock, passed)
        except Exception as error:
            sock.close()
            LOG.internal_error("adopting_failed", error)

    async def _reply(self, sock: socket.socket, question: bytes) -> None:
        with sock:
            try:
                answer = await self._answer(question)
                await self._loop.sock_sendall(sock, LENGTH.pack(len(answer)) + answer)
            except OSError:
                return  # whoever asked waits no longer
            except Exception as error:
                LOG.internal_error("answering_failed", error)


class _Arriving:
    """One connection until its opening is whole."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        secret: bytes,
        arrived: Callable[[socket.socket, Opening, list[int]], None],
        ended: Callable[[_Arriving], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._secret = secret
        self._arrived = arrived
        self._ended = ended
        self._data = bytearray()
        self._descriptors: list[int] = []
        self._wanted = HEAD_BYTES
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._read)
        self._timer = loop.call_later(OPENING_SECONDS, self._refuse, "late")

    def _read(self) -> None:
        """Reads on as long as there is something: the head and the rest of an opening mostly come together."""
        while self._read_some():
            pass

    def _read_some(self) -> bool:
        """False once nothing more is to be read now."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._sock, self._wanted - len(self._data), 1)
        except BlockingIOError:
            return False
        except OSError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        self._data += data
        if not data:
            self._refuse("ended")
        elif not hmac.compare_digest(self._data[:SECRET_BYTES], self._secret[: len(self._data)]):
            self._refuse("secret")
        elif len(self._data) == HEAD_BYTES:
            return self._has_length()
        elif len(self._data) == self._wanted:
            self._take_opening()
        else:
            return True
        return False

    def _has_length(self) -> bool:
        (length,) = LENGTH.unpack_from(self._data, SECRET_BYTES)
        self._wanted += length
        if 0 < length <= OPENING_BYTES_MAX:
            return True
        self._refuse("length")
        return False

    def _take_opening(self) -> None:
        try:
            came = opening.decode(bytes(self._data[HEAD_BYTES:]))
        except msgspec.DecodeError:
            self._refuse("opening")
            return
        if len(self._descriptors) != (came.kind == "socket"):
            self._refuse("descriptors")
            return
        descriptors, self._descriptors = self._descriptors, []
        self._stop_reading()
        self._arrived(self._sock, came, descriptors)

    def _refuse(self, why: str) -> None:
        LOG.warning("foreign_connection", why=why, process=_peer(self._sock))
        self.end()

    def end(self) -> None:
        self._stop_reading()
        self._sock.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def _stop_reading(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._ended(self)


def _peer(sock: socket.socket) -> int | None:
    """The process at the other end, where the system says so."""
    try:
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except (AttributeError, OSError):
        return None
    return int(_CREDENTIALS.unpack(found)[0])
