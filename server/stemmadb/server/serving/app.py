"""The process as a whole: opens the store, starts the service and its listener, and stops them gracefully."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.compiled import lane_name
from stemmadb.protocol.model.ids import Did
from stemmadb.server import compiled
from stemmadb.server.counting import Counts
from stemmadb.server.engine.store import Store
from stemmadb.server.events import Log
from stemmadb.server.opening import now, open_store
from stemmadb.server.service.sockets import Host
from stemmadb.server.serving import descriptors, presence, server_identity, tls
from stemmadb.server.serving.config import Config
from stemmadb.server.serving.health import Health, Readiness
from stemmadb.server.serving.listener import Listener, ListenerSettings
from stemmadb.server.serving.metrics import Metrics
from stemmadb.server.serving.presence import Presence
from stemmadb.server.serving.server_identity import ServerIdentity
from stemmadb.server.storage.sqlite import sqlite_version
from stemmadb.server.tuning import tune_interpreter

LOG: Final = Log("app")
SPARE_WANTED: Final = 1_024
"""Connections that are no WebSocket yet, beside those that are."""
GONE_POLL_SECONDS: Final = 0.01
"""How often a stop looks whether the last connection has taken its goodbye."""
GOODBYE_MS: Final = 3_000
"""How long it looks; a connection that does not take it is cut by its listener before."""


class Service(Host, Protocol):
    """The service, as the process uses it."""

    async def stop(self) -> None:
        """Waits for what is under way; then, also if cut short, tells sessions to come back and closes them."""
        ...


MakeService: TypeAlias = Callable[[Store, ServerIdentity, Config, Counts], Service]
MakeListener: TypeAlias = Callable[[str, ListenerSettings], Listener]
"""Takes the setting `listener`: which one is wanted."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """A server that listens: what there is to tell about it."""

    host: str
    port: int
    tls: bool
    data: Path
    did: Did
    sqlite: str
    warnings: tuple[str, ...]

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.tls else 'ws'}://{host}:{self.port}"


async def serve(
    config: Config,
    *,
    make_service: MakeService,
    make_listener: MakeListener,
    ready: Callable[[Serving], None] | None = None,
    stop: asyncio.Event,
) -> None:
    """Serves until `stop` is set; `ready` is called once it listens. What is acknowledged by then is durable.

    `DirectoryHeld`, `UnusableKey`, `InvalidConfig`, `Unavailable` and `OSError` say why it cannot start.
    """
    asyncio.get_running_loop().set_exception_handler(_log_mistake)
    tune_interpreter()
    context = tls.context_of(config)  # before anything is opened or made
    counts = Counts()
    async with open_store(config.data, limits=config.limits(), settings=config.settings(), counts=counts) as store:
        identity = server_identity.keep(config.data)
        listener = make_listener(config.listener, _listener_settings(config, context))
        readiness = Readiness(config.data)
        service = make_service(store, identity, config, counts)
        async with _listening(
            config, listener, service, Health(readiness, _metrics(config, counts, listener)), readiness
        ):
            with presence.present(config.data, _presence(config, listener, identity)):
                readiness.opened()
                _tell(_serving(config, listener, identity), ready)
                await stop.wait()
    LOG.info("stopped")


@asynccontextmanager
async def _listening(
    config: Config, listener: Listener, service: Service, health: Health, readiness: Readiness
) -> AsyncIterator[None]:
    """Listens while the block runs, then stops: accepts nobody, says goodbye, waits until it was taken."""
    try:
        await listener.start(service, health)
    except OSError as failed:
        raise _cannot_listen(config, failed) from None
    try:
        yield
    finally:
        LOG.info("stopping", connections=listener.connections)
        readiness.stopping()
        await listener.stop()
        await _say_goodbye(config, listener, service)


async def _say_goodbye(config: Config, listener: Listener, service: Service) -> None:
    await _in_time(service.stop(), config.stop_timeout_ms, "stop_timed_out")
    await _in_time(_all_gone(listener), GOODBYE_MS, "goodbye_timed_out")


async def _all_gone(listener: Listener) -> None:
    while listener.connections:
        await asyncio.sleep(GONE_POLL_SECONDS)


async def _in_time(work: Coroutine[Any, Any, None], most_ms: int, event: str) -> None:
    """Does the work, or as much of it as there is time for."""
    try:
        async with asyncio.timeout(most_ms / 1_000):
            await work
    except TimeoutError:
        LOG.warning(event, after_ms=most_ms)


def _metrics(config: Config, counts: Counts, listener: Listener) -> Metrics | None:
    return None if config.metrics == "off" else Metrics(counts, listener, names_spaces=config.metrics == "spaces")


# ------------------------------------------------------------ what is told


def _tell(serving: Serving, ready: Callable[[Serving], None] | None) -> None:
    for warning in serving.warnings:
        LOG.warning("open_to_strangers", why=warning)
    modules = "compiled" if compiled.is_used() else "python"
    made_of = {"sqlite": serving.sqlite, "lane": lane_name(), "modules": modules}
    LOG.info("listening", url=serving.url, data_directory=str(serving.data), did=serving.did, **made_of)
    if ready is not None:
        ready(serving)


def _serving(config: Config, listener: Listener, identity: ServerIdentity) -> Serving:
    return Serving(
        host=config.host,
        port=listener.port,
        tls=config.tls_cert is not None,
        data=config.data,
        did=identity.did,
        sqlite=sqlite_version(),
        warnings=config.risks,
    )


def _presence(config: Config, listener: Listener, identity: ServerIdentity) -> Presence:
    return Presence(
        pid=os.getpid(),
        host=config.host,
        port=listener.port,
        tls=config.tls_cert is not None,
        did=identity.did,
        started=now(),
    )


def _listener_settings(config: Config, context: ssl.SSLContext | None) -> ListenerSettings:
    places = descriptors.places(
        descriptors.raise_limit(), wanted=descriptors.Places(config.connections_max, SPARE_WANTED)
    )
    return ListenerSettings(
        host=config.host,
        port=config.port,
        handshake_timeout_ms=config.handshake_timeout_ms,
        heartbeat_ms=config.heartbeat_ms,
        message_bytes_max=config.limits().message_bytes_max,
        connections_max=places.connections,
        spare_max=places.spare,
        opening_bytes_max=3 * config.limits().schema_bytes_max,
        origins=config.origins,
        ssl=context,
    )


def _cannot_listen(config: Config, failed: OSError) -> Unavailable:
    where = f"{config.host}, port {config.port}"
    if failed.errno == errno.EADDRINUSE:
        return Unavailable(f"Another program listens on {where}. Stop it, or choose another port with --port.")
    if failed.errno == errno.EACCES:
        return Unavailable(f"No permission to listen on {where}. Choose a port above 1023 with --port.")
    return Unavailable(f"Cannot listen on {where}: {failed.strerror or failed}. Check --host.")


def _log_mistake(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG001
    """What no task was there to be told."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        LOG.mistake("mistake", error, what=str(context["message"]))
    else:
        LOG.error("mistake", what=str(context["message"]))
