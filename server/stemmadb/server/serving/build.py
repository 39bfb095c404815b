"""Which service and which listener a server is made of."""

from __future__ import annotations

import os
from typing import Final

from stemmadb.server.counters import Counts
from stemmadb.server.engine.store import Store
from stemmadb.server.open_store import now
from stemmadb.server.service.service import Service
from stemmadb.server.serving.app import StoppableService
from stemmadb.server.serving.listeners.listener import Listener, ListenerSettings
from stemmadb.server.serving.listeners.websockets_listener import WebsocketsListener
from stemmadb.server.serving.server_identity import ServerIdentity
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.settings.problems import InvalidConfig

AUTO: Final = "auto"
WEBSOCKETS: Final = "websockets"


def make_service(store: Store, identity: ServerIdentity, config: Config, counts: Counts) -> StoppableService:
    """The real one, with a real clock and real randomness."""
    return Service(
        store,
        server=identity.did,
        now=now,
        random=os.urandom,
        limits=config.limits(),
        settings=config.service_settings(),
        counts=counts,
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
