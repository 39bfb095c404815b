"""Which service and which listener a server is made of."""

from __future__ import annotations

import importlib.util
import os
from typing import Final

from stemmadb.protocol.wire.version import FEATURES, OWES_SCRUB
from stemmadb.server.counters import Counts
from stemmadb.server.engine.store import Store
from stemmadb.server.http.base.console_files import ConsoleFiles, console_directory
from stemmadb.server.http.base.context import HttpContext
from stemmadb.server.http.base.membership import SpaceLists, SpaceMembership
from stemmadb.server.http.lazy_server import LazyWebServer
from stemmadb.server.service.service import Service
from stemmadb.server.serving.app import StoppableService, StoppableWebServer
from stemmadb.server.serving.listeners.listener import Listener, ListenerSettings
from stemmadb.server.serving.listeners.origins import AllowedOrigins
from stemmadb.server.serving.listeners.websockets_listener import WebsocketsListener
from stemmadb.server.serving.server_identity import ServerIdentity
from stemmadb.server.serving.settings.config import Config, is_loopback
from stemmadb.server.serving.settings.problems import InvalidConfig
from stemmadb.server.serving.workers.worker import WorkerProcess

AUTO: Final = "auto"
WEBSOCKETS: Final = "websockets"


def make_service(store: Store, identity: ServerIdentity, config: Config, counts: Counts) -> StoppableService:
    """The real one, with a real clock and real randomness."""
    service = Service(
        store,
        server=identity.did,
        now=store.now,
        random=os.urandom,
        limits=config.limits(),
        settings=config.service_settings(),
        counts=counts,
    )
    if config.storage is not None:
        service.features = (*FEATURES, OWES_SCRUB)
    return service


def make_worker_service(
    worker: WorkerProcess, store: Store, identity: ServerIdentity, config: Config, counts: Counts
) -> StoppableService:
    """The same, of one worker: it serves its own spaces, and counts connections together with the others."""
    service = make_service(store, identity, config, counts)
    assert isinstance(service, Service), "workers run the real service"
    service.owns = worker.owns
    service.connections.tally = worker.counts
    return service


def make_web(
    service: StoppableService, identity: ServerIdentity, config: Config, lists: SpaceLists | None = None
) -> StoppableWebServer | None:
    """HTTP beside the WebSocket; None where aiohttp is not installed.

    `lists` has the spaces of a principal; by default it is a table in the data directory.
    """
    if importlib.util.find_spec("aiohttp") is None:
        return None
    assert isinstance(service, Service), "HTTP is served by the real service"
    membership = lists or SpaceMembership(config.data)
    service.on_access = membership.listed
    origins = AllowedOrigins(config.origins, public=config.public, is_loopback=is_loopback(config.host))
    return LazyWebServer(
        HttpContext(
            service=service,
            server=identity.did,
            limits=config.limits(),
            random=os.urandom,
            origins=origins,
            is_tls=config.tls_cert is not None,
            streams_max=config.http_streams_max,
            console=ConsoleFiles(console_directory()) if config.console == "on" else None,
            operators=frozenset(config.operators),
            membership=membership,
        )
    )


def make_listener(wanted: str, settings: ListenerSettings) -> Listener:
    """The listener of a name; `auto` is the fastest that runs here. `InvalidConfig` if the wanted one does not."""
    if wanted == WEBSOCKETS:
        return WebsocketsListener(settings)
    try:
        from stemmadb.server.serving.listeners.picows_listener import PicowsListener  # noqa: PLC0415
    except ImportError:  # compiled code, which not every machine has
        if wanted != AUTO:
            raise InvalidConfig(setting="listener", source=wanted, why="picows is not installed here") from None
        return WebsocketsListener(settings)
    return PicowsListener(settings)
