"""The parent of workers: holds the data directory, listens, starts the workers and starts them again.

It serves nothing itself. A worker that dies is started again under its number after a pause (`workers.restarts`); the
others notice nothing. When the parent ends, in whatever way, all workers end.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from typing import Any, Final

import msgspec

from stemmadb.protocol.errors import StemmaError, restore
from stemmadb.server.log_events import Log
from stemmadb.server.open_store import now
from stemmadb.server.serving import build, descriptors, presence, server_identity, tls
from stemmadb.server.serving.app import CLOSE_MS, Serving, cannot_listen
from stemmadb.server.serving.companions import Companion, CompanionShare, DividedServer, joined_notes
from stemmadb.server.serving.listeners.gate import BACKLOG
from stemmadb.server.serving.listeners.listener import ListenerSettings
from stemmadb.server.serving.ownership.worker_ownership import worker_of
from stemmadb.server.serving.presence import Presence
from stemmadb.server.serving.server_identity import ServerIdentity
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.workers import arrangement, places
from stemmadb.server.serving.workers.control import ControlChannel, Message, open_channel
from stemmadb.server.serving.workers.opening import SECRET_BYTES
from stemmadb.server.serving.workers.restarts import Restarts
from stemmadb.server.serving.workers.shared_limits import SharedCounts
from stemmadb.server.serving.workers.worker import StartedShare, WorkerStart
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.sqlite import SqliteStorage, sqlite_version

LOG: Final = Log("workers")
MODULE: Final = "stemmadb.server.commands.worker"
STOP_SPARE_SECONDS: Final = 2.0
"""How much longer than one server may take to stop all workers may."""
LOOK_SECONDS: Final = 1.0
"""How often it is looked whether trouble is over."""


async def serve_with_workers(
    config: Config,
    *,
    ready: Callable[[Serving], None] | None = None,
    stop: asyncio.Event,
    companions: Sequence[Companion] = (),
) -> None:
    """As `app.serve`, with `config.workers` workers."""
    tls.context_of(config)
    build.make_listener(config.listener, ListenerSettings(host=config.host, port=config.port))
    places.check(config.data, config.workers)
    descriptors.check_workers(descriptors.raise_limit(), config.workers)
    with hold(config.data) as lock:
        identity = _prepared(config)
        lock.release_workers()
        with ExitStack() as stack:
            sockets = [stack.enter_context(sock) for sock in await _listen(config)]
            server = DividedServer(config.data, identity.did, partial(worker_of, workers=config.workers))
            shares = [stack.enter_context(one.divided(server)) for one in companions]
            await Parent(config, identity, sockets, ready, stop, shares).run()
    LOG.info("stopped")


def _prepared(config: Config) -> ServerIdentity:
    """Recovers what any process has left, and divides the directory among the workers."""
    storage = SqliteStorage(config.data)
    try:
        arrangement.check_recovered(config.data, config.workers, storage.unrecovered)
    finally:
        storage.close()
    arrangement.settle(config.data, config.workers)
    return server_identity.keep(config.data)


async def _listen(config: Config) -> list[socket.socket]:
    """One socket for each address of the host, as asyncio would open them."""
    loop = asyncio.get_running_loop()
    sockets: list[socket.socket] = []
    try:
        found = await loop.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, number, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, number)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(BACKLOG)
    except OSError as failed:
        for sock in sockets:
            sock.close()
        raise cannot_listen(config, failed) from None
    return sockets


class _Child:
    """One worker, as the parent knows it."""

    def __init__(self, number: int, shares: Sequence[CompanionShare]) -> None:
        self.number = number
        self.shares = shares
        self.notes: Mapping[str, Any] = {}
        """What its companions noted when it last became ready: they are reached there while it starts again, too."""
        self.restarts = Restarts()
        self.process: Process | None = None
        self.control: ControlChannel | None = None
        self.is_ready = False

    def tell(self, message: Message) -> None:
        if self.control is not None:
            self.control.send(message)


class Parent:
    """Watches the workers of one server until it is stopped. Used from one event loop."""

    def __init__(
        self,
        config: Config,
        identity: ServerIdentity,
        sockets: Sequence[socket.socket],
        ready: Callable[[Serving], None] | None,
        stop: asyncio.Event,
        shares: Sequence[Mapping[int, CompanionShare]] = (),
    ) -> None:
        """`shares` has each companion, by the number of the worker."""
        self._config = config
        self._identity = identity
        self._sockets = sockets
        self._port = int(sockets[0].getsockname()[1])
        self._ready = ready
        self._stop = stop
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._children = [
            _Child(number, [divided[number] for divided in shares if number in divided])
            for number in range(config.workers)
        ]
        self._failed: StemmaError | None = None
        self._is_announced = False
        self._owes_presence = False
        """Whether the note of this server in its directory is not as it should be."""
        self._trouble: str | None = None
        self._started = now()
        service = config.service_settings()
        self._counts = SharedCounts(
            connections_max=config.connections_max,
            per_address_max=config.connections_per_address_max,
            per_principal_max=service.connections_per_principal_max,
        )

    async def run(self) -> None:
        """Until it is stopped, or a worker says at the first start why it cannot serve: then that is raised."""
        loop = asyncio.get_running_loop()
        tending = [asyncio.create_task(self._tend(child)) for child in self._children]
        for one in tending:
            one.add_done_callback(lambda _: self._stop.set())  # an internal error, unless it was stopped
        looking = loop.create_task(self._look())
        async with AsyncExitStack() as stack:
            stack.callback(partial((self._config.data / presence.NAME).unlink, missing_ok=True))
            try:
                await self._stop.wait()
            finally:
                looking.cancel()
                await self._end(tending)
        if self._failed is not None:
            raise self._failed
        for one in tending:
            one.result()

    # ------------------------------------------------------------ one worker

    async def _tend(self, child: _Child) -> None:
        """Keeps a worker running until the server stops."""
        while True:
            why = None
            try:
                code = await self._run(child)
            except (OSError, RuntimeError) as failed:  # no process, thread, memory or descriptor is to be had now
                why = str(failed)
            if self._stop.is_set():
                return
            pause = child.restarts.died(asyncio.get_running_loop().time())
            again = round(pause * 1_000)
            if why is None:
                LOG.warning("worker_died", worker=child.number, code=code, again_in_ms=again)
            else:
                LOG.warning("worker_not_started", worker=child.number, why=why, again_in_ms=again)
            self._look_now()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause or 0.001)
            if self._stop.is_set():
                return

    async def _run(self, child: _Child) -> int:
        """Starts the process of a worker and waits until it has ended; returns its exit code."""
        lifeline, held = os.pipe()
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    child.process = await self._spawn(child, theirs, lifeline)
                    child.control = await open_channel(ours, partial(self._told, child), lambda: None)
                finally:
                    if child.control is None:
                        ours.close()
            child.tell({"full": sorted(self._counts.full)})
            child.tell({"trouble": self._trouble})
            if self._stop.is_set():  # the others were told before this one could hear it
                child.tell({"stop": True})
            return await child.process.wait()
        finally:
            os.close(lifeline)
            os.close(held)  # a process that is left ends with it
            if child.control is not None:
                child.control.close()
            child.control, child.process, child.is_ready = None, None, False
            if self._counts.forget(child.number):
                self._tell_full()

    async def _spawn(self, child: _Child, control: socket.socket, lifeline: int) -> Process:
        accepts = self._config.accept_only in (None, child.number)
        listening = [sock.fileno() for sock in self._sockets] if accepts else []
        start = WorkerStart(
            number=child.number,
            workers=self._config.workers,
            secret=self._secret.hex(),
            config=self._settings(),
            listening=listening,
            control=control.fileno(),
            lifeline=lifeline,
            companions=[
                StartedShare(one.name, dict(one.arguments), [sock.fileno() for sock in one.sockets])
                for one in child.shares
            ],
        )
        theirs = [sock for one in start.companions for sock in one.sockets]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
            "-m",
            MODULE,
            stdin=PIPE,
            pass_fds=[*listening, control.fileno(), lifeline, *theirs],
            start_new_session=True,  # Ctrl-C is for the parent, which stops them all
        )
        assert process.stdin is not None, "it was asked for"
        with suppress(ConnectionError):  # it has died already
            process.stdin.write(msgspec.json.encode(start))
            process.stdin.close()
        return process

    def _settings(self) -> dict[str, Any]:
        return self._config.model_dump(mode="json") | {
            "data": str(self._config.data.absolute()),
            "port": self._port,
        }

    # ------------------------------------------------------------ what workers tell

    def _told(self, child: _Child, message: Message) -> None:
        if "counts" in message:
            if self._counts.take(child.number, message["counts"]):
                self._tell_full()
        elif "ready" in message:
            child.is_ready, child.notes = True, message["ready"]
            self._announce()
        elif "failed" in message:
            code, text = message["failed"]
            LOG.error("worker_cannot_serve", worker=child.number, code=code, says=text)
            if not self._is_announced:
                self._failed = restore(code, text, {})
                self._stop.set()

    def _tell_full(self) -> None:
        full = sorted(self._counts.full)
        for child in self._children:
            child.tell({"full": full})

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._look_now()
            if self._owes_presence:
                self._write_presence()

    def _look_now(self) -> None:
        """Tells the workers if another one dies again and again, or no longer does."""
        now_ = asyncio.get_running_loop().time()
        troubled = [child.number for child in self._children if child.restarts.is_troubled(now_)]
        trouble = None
        if troubled:
            names = ", ".join(str(number) for number in troubled)
            trouble = f"These workers die again and again, and their spaces are not served: {names}. See the log."
        if trouble != self._trouble:
            self._trouble = trouble
            for child in self._children:
                child.tell({"trouble": trouble})

    # ------------------------------------------------------------ what others are told

    def _announce(self) -> None:
        if not self._is_announced and not all(child.is_ready for child in self._children):
            return
        self._write_presence()
        if self._is_announced:
            return
        self._is_announced = True
        serving = self._serving()
        for warning in serving.warnings:
            LOG.warning("open_to_strangers", why=warning)
        LOG.info("serving", url=serving.url, data_directory=str(serving.data), workers=serving.workers)
        if self._ready is not None:
            self._ready(serving)

    def _write_presence(self) -> None:
        """Tries again later if the disk is full: only commands on this machine look for the note."""
        try:
            presence.write(self._config.data, self._presence())
        except OSError as failed:
            if not self._owes_presence:
                LOG.warning("presence_not_written", why=str(failed))
            self._owes_presence = True
        else:
            self._owes_presence = False

    def _serving(self) -> Serving:
        config = self._config
        return Serving(
            host=config.host,
            port=self._port,
            tls=config.tls_cert is not None,
            data=config.data,
            did=self._identity.did,
            sqlite=sqlite_version(),
            warnings=config.risks,
            workers=config.workers,
        )

    def _presence(self) -> Presence:
        running = {str(child.number): child.process.pid for child in self._children if child.process is not None}
        return Presence(
            pid=os.getpid(),
            host=self._config.host,
            port=self._port,
            tls=self._config.tls_cert is not None,
            did=self._identity.did,
            started=self._started,
            workers=running,
            companions=joined_notes(child.notes for child in self._children),
        )

    # ------------------------------------------------------------ the end

    async def _end(self, tending: Sequence[asyncio.Task[None]]) -> None:
        """Stops all workers as one server stops; what does not stop in time is killed, which loses nothing."""
        self._stop.set()
        for child in self._children:
            child.tell({"stop": True})
        seconds = (self._config.stop_timeout_ms + CLOSE_MS) / 1_000 + STOP_SPARE_SECONDS
        _, late = await asyncio.wait(tending, timeout=seconds)
        if late:
            LOG.warning("workers_killed", count=len(late))
            for child in self._children:
                if child.process is not None:
                    with suppress(ProcessLookupError):
                        child.process.send_signal(signal.SIGKILL)
            await asyncio.wait(late)
