"""The process as a whole: opens the store, starts the service and its listener, and stops them gracefully."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import msgspec

from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.commit.native import fast_path_name
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.store import Store
from stemmadb.server.http.base.membership import SpaceLists
from stemmadb.server.log_events import Log
from stemmadb.server.open_store import now, open_store, store_on
from stemmadb.server.service.base.transport import HandlerFactory
from stemmadb.server.serving import descriptors, presence, server_identity, tls
from stemmadb.server.serving.companions import Companion, RunningServer
from stemmadb.server.serving.health import Health, Readiness
from stemmadb.server.serving.listeners.hosts import AllowedHosts
from stemmadb.server.serving.listeners.listener import Listener, ListenerSettings
from stemmadb.server.serving.listeners.origins import AllowedOrigins
from stemmadb.server.serving.listeners.web_port import WebServer
from stemmadb.server.serving.metrics import Metrics
from stemmadb.server.serving.presence import Presence
from stemmadb.server.serving.server_identity import ServerIdentity
from stemmadb.server.serving.settings.config import Config, is_loopback
from stemmadb.server.serving.settings.problems import InvalidConfig
from stemmadb.server.serving.workers import arrangement
from stemmadb.server.serving.workers.worker import WorkerProcess
from stemmadb.server.storage.sqlite import sqlite_version
from stemmadb.server.tuning import tune_interpreter

if TYPE_CHECKING:
    from stemmadb.server.serving.nodes.node import Hubs, ServingNode
    from stemmadb.server.serving.ownership.routing import Routing

LOG: Final = Log("app")
SPARE_WANTED: Final = 1_024
"""Connections that are not a WebSocket yet, in addition to those that are."""
CLOSED_POLL_SECONDS: Final = 0.01
"""How often a stop checks whether the last connection is closed."""
CLOSE_MS: Final = 3_000
"""How long a stop waits for that; the listener aborts connections that do not close before."""


class StoppableService(HandlerFactory, Protocol):
    """The service, as the process uses it."""

    async def stop(self) -> None:
        """Waits for undecided commits; then, also if cancelled, asks clients to reconnect and closes sessions."""
        ...


class StoppableWebServer(WebServer, Protocol):
    """HTTP, as the process uses it."""

    def load_soon(self) -> None: ...

    async def stop(self) -> None: ...


MakeWeb: TypeAlias = Callable[
    [StoppableService, ServerIdentity, Config, SpaceLists | None], StoppableWebServer | None
]
MakeService: TypeAlias = Callable[[Store, ServerIdentity, Config, Counts], StoppableService]
MakeListener: TypeAlias = Callable[[str, ListenerSettings], Listener]
"""Takes the setting `listener`: which one is wanted."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """A server that listens, as the banner and the logs describe it."""

    host: str
    port: int
    tls: bool
    data: Path
    did: Did
    sqlite: str
    warnings: tuple[str, ...]
    workers: int = 1
    companions: Mapping[str, object] = msgspec.field(default_factory=dict)
    """What runs beside the service and how to reach it, by name."""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.tls else 'ws'}://{host}:{self.port}"


async def serve(
    config: Config,
    *,
    make_service: MakeService,
    make_listener: MakeListener,
    make_web: MakeWeb | None = None,
    ready: Callable[[Serving], None] | None = None,
    stop: asyncio.Event,
    companions: Sequence[Companion] = (),
    worker: WorkerProcess | None = None,
) -> None:
    """Serves until `stop` is set; `ready` is called once it listens. What is acknowledged by then is durable.

    A worker serves its share of the spaces: its parent holds the directory, listens and announces the server.

    `DirectoryHeld`, `UnusableKey`, `InvalidConfig`, `Unavailable` and `OSError` say why it cannot start.
    """
    asyncio.get_running_loop().set_exception_handler(_log_internal_error)
    tune_interpreter()
    context = tls.context_of(config)  # before anything is opened or made
    counts = Counts()
    descriptors_max = descriptors.raise_limit()
    settings = settings_for(config, descriptors_max, worker)
    async with _opened(config, settings, counts, worker) as (store, identity, node):
        listener = make_listener(config.listener, _listener_settings(config, context, descriptors_max, worker))
        readiness = Readiness(config.data, trouble=_trouble_of(worker, node))
        hosts = AllowedHosts((config.host, *config.hosts))
        metrics = _metrics(config, counts, listener, node)
        scrape_all = None if worker is None or metrics is None else worker.add_up(metrics.scrape)
        service = make_service(store, identity, config, counts)
        running = RunningServer(service=service, data=config.data, stop=stop)
        web = make_web(service, identity, config, _lists_of(worker, node)) if make_web is not None else None
        health = Health(
            readiness,
            metrics,
            hosts=hosts,
            origins=AllowedOrigins(config.origins, public=config.public, is_loopback=is_loopback(config.host)),
            is_tls=context is not None,
            has_console=web is not None and config.console == "on",
            scrape_all=scrape_all,
        )
        listener.answers_later = health.later
        routing = worker.routing if worker is not None else None if node is None else node.routing
        if node is not None:
            node.attend(cast("Hubs", service))
        async with (
            _taking(worker, listener, metrics),
            _listening(config, listener, service, health, readiness, web, node, routing),
            _accompanied(running, companions) as notes,
        ):
            if node is not None:
                await node.listens(config.node_address or f"{_in_url(config.host)}:{listener.port}")
            with _present(config, listener, identity, notes, worker):
                readiness.opened()
                _announce(_serving(config, listener, identity, notes), ready)
                await stop.wait()
    LOG.info("stopped")


@asynccontextmanager
async def _opened(
    config: Config, settings: Settings, counts: Counts, worker: WorkerProcess | None
) -> AsyncIterator[tuple[Store, ServerIdentity, ServingNode | None]]:
    """The spaces of the data directory, or those of a database, of which this process is a node then."""
    if config.storage is None:
        async with open_store(
            config.data,
            limits=config.limits(),
            settings=settings,
            counts=counts,
            worker=None if worker is None else worker.directory,
        ) as store:
            if worker is None:
                arrangement.settle(config.data, 1)
            yield store, server_identity.keep(config.data, config.server_key), None
        return
    try:
        from stemmadb.server.serving.nodes.node import serving_node  # noqa: PLC0415  # psycopg is optional
    except ImportError:
        why = "psycopg is not installed; run pip install 'stemmadb[postgres]'"
        raise InvalidConfig(setting="storage", source="PostgreSQL", why=why) from None
    config.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = server_identity.keep(config.data, config.server_key)
    opening = serving_node(
        config.storage,
        identity,
        program=version("stemmadb"),
        lease_ms=config.lease_ms,
        read_view_ms_max=config.read_view_ms_max,
    )
    async with (
        opening as node,
        _with_blobs(node, config.blobs),
        store_on(node.storage, node.now, limits=config.limits(), settings=settings, counts=counts) as store,
    ):
        yield store, identity, node


@asynccontextmanager
async def _with_blobs(node: ServingNode, directory: Path | None) -> AsyncIterator[None]:
    """Before any space is opened; `Unavailable` if it is not the directory that all nodes share."""
    await asyncio.to_thread(node.storage.use_blobs, directory)
    yield


def _trouble_of(worker: WorkerProcess | None, node: ServingNode | None) -> Callable[[], str | None]:
    """What is wrong beside the disk."""
    if worker is not None:
        return worker.why_not
    return (lambda: None) if node is None else node.why_not


def _lists_of(worker: WorkerProcess | None, node: ServingNode | None) -> SpaceLists | None:
    """Where the spaces of a principal are listed, if not in the data directory."""
    if worker is not None:
        return worker.membership
    return None if node is None else node.membership


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@asynccontextmanager
async def _listening(
    config: Config,
    listener: Listener,
    service: StoppableService,
    health: Health,
    readiness: Readiness,
    web: StoppableWebServer | None,
    node: ServingNode | None,
    routing: Routing | None,
) -> AsyncIterator[None]:
    """Listens while the block runs, then stops: no new connections, sessions closed, waits until they are."""
    try:
        await listener.start(service, health, web, routing)
    except OSError as failed:
        raise cannot_listen(config, failed) from None
    if web is not None:
        web.load_soon()
    try:
        yield
    finally:
        LOG.info("stopping", connections=listener.connections)
        readiness.stopping()
        most_ms = config.stop_timeout_ms
        if node is not None:  # it still listens, so that its `/readyz` is read
            drain = node.drain(cast("Hubs", service), config.drain_ms)
            if not await _in_time(drain, config.drain_ms + most_ms, "drain_timed_out"):
                most_ms = 0
        await listener.stop()
        await _stop_service(most_ms, listener, service, node)
        if web is not None:
            await web.stop()


@asynccontextmanager
async def _taking(worker: WorkerProcess | None, listener: Listener, metrics: Metrics | None) -> AsyncIterator[None]:
    """A worker takes what others pass on, once it listens itself and until its last connection is closed."""
    if worker is None:
        yield
        return
    async with worker.taking(listener.adopt, _nothing if metrics is None else metrics.scrape):
        yield


def _nothing() -> bytes:
    return b""


def _present(
    config: Config,
    listener: Listener,
    identity: ServerIdentity,
    notes: dict[str, object],
    worker: WorkerProcess | None,
) -> AbstractContextManager[None]:
    if worker is not None or config.storage is not None:  # its parent is the server; no node owns the directory
        return nullcontext()
    return presence.present(config.data, _presence(config, listener, identity, notes))


@asynccontextmanager
async def _accompanied(running: RunningServer, companions: Sequence[Companion]) -> AsyncIterator[dict[str, object]]:
    async with AsyncExitStack() as opened:
        notes: dict[str, object] = {}
        for companion in companions:
            notes |= await opened.enter_async_context(companion(running))
        yield notes


async def _stop_service(
    most_ms: int, listener: Listener, service: StoppableService, node: ServingNode | None
) -> None:
    await _in_time(service.stop(), most_ms, "stop_timed_out")
    if node is not None:
        node.lose_all()  # so that another node can serve them while connections close
    await _in_time(_all_closed(listener), CLOSE_MS, "close_timed_out")


async def _all_closed(listener: Listener) -> None:
    while listener.connections or listener.http_connections or listener.relays:
        await asyncio.sleep(CLOSED_POLL_SECONDS)


async def _in_time(work: Coroutine[Any, Any, None], most_ms: int, event: str) -> bool:
    """Does the work, or as much of it as there is time for; whether that was all."""
    try:
        async with asyncio.timeout(most_ms / 1_000):
            await work
    except TimeoutError:
        LOG.warning(event, after_ms=most_ms)
        return False
    return True


def _metrics(config: Config, counts: Counts, listener: Listener, node: ServingNode | None) -> Metrics | None:
    if config.metrics == "off":
        return None
    beside = () if node is None else (node.metrics,)
    return Metrics(counts, listener, names_spaces=config.metrics == "spaces", beside=beside)


# ------------------------------------------------------------ what is announced


def _announce(serving: Serving, ready: Callable[[Serving], None] | None) -> None:
    for warning in serving.warnings:
        LOG.warning("open_to_strangers", why=warning)
    made_of = {"sqlite": serving.sqlite, "fast_path": fast_path_name()}
    LOG.info("listening", url=serving.url, data_directory=str(serving.data), did=serving.did, **made_of)
    if ready is not None:
        ready(serving)


def _serving(
    config: Config, listener: Listener, identity: ServerIdentity, companions: Mapping[str, object]
) -> Serving:
    return Serving(
        host=config.host,
        port=listener.port,
        tls=config.tls_cert is not None,
        data=config.data,
        did=identity.did,
        sqlite=sqlite_version(),
        warnings=config.risks,
        companions=companions,
    )


def _presence(
    config: Config, listener: Listener, identity: ServerIdentity, companions: dict[str, object]
) -> Presence:
    return Presence(
        pid=os.getpid(),
        host=config.host,
        port=listener.port,
        tls=config.tls_cert is not None,
        did=identity.did,
        started=now(),
        companions=companions,
    )


def settings_for(config: Config, descriptors_max: int, worker: WorkerProcess | None) -> Settings:
    """Those that are set, or a worker's share of them; no more open spaces than there are descriptors for."""
    settings = config.settings() if worker is None else worker.share_of(config.settings())
    fitting = descriptors.open_spaces(descriptors_max, wanted=settings.open_spaces_max)
    return msgspec.structs.replace(settings, open_spaces_max=fitting)


def _listener_settings(
    config: Config, context: ssl.SSLContext | None, descriptors_max: int, worker: WorkerProcess | None
) -> ListenerSettings:
    limits = descriptors.connection_limits(
        descriptors_max, wanted=descriptors.ConnectionLimits(config.connections_max, SPARE_WANTED)
    )
    return ListenerSettings(
        host=config.host,
        port=config.port,
        handshake_timeout_ms=config.handshake_timeout_ms,
        heartbeat_ms=config.heartbeat_ms,
        message_bytes_max=config.limits().message_bytes_max,
        connections_max=limits.connections,
        spare_max=limits.spare,
        opening_bytes_max=3 * config.limits().schema_bytes_max,
        opening_frames_max=config.opening_frames_max,
        fragments_max=config.fragments_max,
        small_frames_per_second=config.small_frames_per_second,
        connections_per_address_max=config.connections_per_address_max,
        http_connections_max=config.http_connections_max,
        body_timeout_ms=config.http_body_timeout_ms,
        idle_timeout_ms=config.http_idle_timeout_ms,
        origins=config.origins,
        public=config.public,
        is_loopback=is_loopback(config.host),
        ssl=context,
        sockets=None if worker is None else worker.sockets,
        tally=None if worker is None else worker.counts,
    )


def cannot_listen(config: Config, failed: OSError) -> Unavailable:
    where = f"{config.host}, port {config.port}"
    if failed.errno == errno.EADDRINUSE:
        return Unavailable(f"Another program is listening on {where}. Stop it, or choose another port with --port.")
    if failed.errno == errno.EACCES:
        return Unavailable(f"No permission to listen on {where}. Choose a port above 1023 with --port.")
    return Unavailable(f"Cannot listen on {where}: {failed.strerror or failed}. Check --host.")


def _log_internal_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG001
    """Logs errors that no task could raise."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        LOG.internal_error("internal_error", error, what=str(context["message"]))
    else:
        LOG.error("internal_error", what=str(context["message"]))
