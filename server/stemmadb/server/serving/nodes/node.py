"""A node: a process that serves spaces of a PostgreSQL database, and what it does when it loses them.

A space can be lost in three ways, and each ends its hub, so that clients connect anew and are led to the owner:
another node has claimed it, this node's row has ended, or the server of the database is another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence, Sized
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.server.log_events import Log
from stemmadb.server.serving.nodes.drain_steps import retry_after_ms, steps
from stemmadb.server.serving.nodes.members import DatabaseMembership
from stemmadb.server.serving.nodes.metrics import NodeMetrics
from stemmadb.server.serving.nodes.ownership import NodeOwnership
from stemmadb.server.serving.nodes.passing import NodePassing
from stemmadb.server.serving.ownership.routing import Routing
from stemmadb.server.serving.server_identity import ServerIdentity
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage

LOG: Final = Log("node")
SECRET_LABEL: Final = b"stemma.v1 passing connections between nodes"


class Hubs(Protocol):
    """The service, as a node uses it."""

    def lose(self, space: Did) -> None: ...

    def lose_all(self) -> None: ...

    @property
    def sessions(self) -> Sized: ...

    @property
    def open_spaces(self) -> Sequence[Did]: ...

    async def give_up(
        self, spaces: Collection[Did], given_back: Callable[[], Awaitable[None]], retry_after_ms: Callable[[], int]
    ) -> None: ...


class ServingNode:
    """One for a process. Its callbacks come from threads of the storage and run on the loop."""

    def __init__(self, storage: PostgresStorage, identity: ServerIdentity) -> None:
        self.storage = storage
        self.lose_all: Callable[[], None] = _nothing
        """Ends all hubs and gives their spaces back."""
        self.ownership = NodeOwnership(storage)
        self.passing = NodePassing(identity.sign(SECRET_LABEL))
        self.metrics = NodeMetrics(storage, self.passing)
        self.membership = DatabaseMembership(storage)
        self.routing = Routing(self.ownership, self.passing)

    def attend(self, hubs: Hubs) -> None:
        """From now on hubs end when their space is lost."""
        loop = asyncio.get_running_loop()
        self.lose_all = hubs.lose_all

        def lost(space: Did) -> None:
            loop.call_soon_threadsafe(hubs.lose, space)

        def died() -> None:
            loop.call_soon_threadsafe(self._ended, hubs)

        self.storage.on_lost = lost
        self.storage.node.on_death = died

    async def drain(self, hubs: Hubs, drain_ms: int) -> None:
        """Claims nothing more, and gives all spaces back, in steps if there are many."""
        self.storage.drain()
        sessions, began = len(hubs.sessions), asyncio.get_running_loop().time()

        async def given_back() -> None:
            with suppress(StorageFailed):  # the end of this node's row frees them too
                await asyncio.to_thread(self.storage.give_back_closed)

        while left := hubs.open_spaces:  # also what was being opened meanwhile
            for step in steps(left, drain_ms):
                await asyncio.sleep(began + step.at - asyncio.get_running_loop().time())
                await hubs.give_up(step.spaces, given_back, lambda: retry_after_ms(sessions, drain_ms))
        await given_back()

    async def listens(self, address: str) -> None:
        """Other nodes pass connections on to this address from now on."""
        await asyncio.to_thread(self.storage.node.listens, address)

    async def end_relays_to_the_dead(self) -> None:
        """For ever: relays to a node end with its row."""
        while True:
            await asyncio.sleep(self.storage.node.lease_ms / 3_000)
            if self.passing.addresses():
                with suppress(StorageFailed, Unavailable):
                    alive = await asyncio.to_thread(self.storage.addresses)
                    for address in set(self.passing.addresses()) - alive:
                        LOG.info("owner_gone", address=address)
                        self.passing.end_relays(address)

    def now(self) -> TimeMs:
        """The database's time: that of all nodes."""
        return TimeMs(self.storage.node.now())

    def why_not(self) -> str | None:
        """None if it is alive."""
        return None if self.ownership.is_alive() else "The database does not answer."

    def _ended(self, hubs: Hubs) -> None:
        """The row of this node has ended: nothing that was made before is sent, and it begins anew."""
        LOG.warning("node_begins_anew", node=self.storage.node.number)
        self.storage.forget_claims()
        hubs.lose_all()
        self.storage.node.begin_anew()


def _nothing() -> None:
    """There are no hubs yet."""


@asynccontextmanager
async def serving_node(
    url: str, identity: ServerIdentity, *, program: str, lease_ms: int, read_view_ms_max: int
) -> AsyncIterator[ServingNode]:
    """The storage, open as a node; `Unavailable` says why it cannot be used."""

    def opened() -> PostgresStorage:
        storage = PostgresStorage(url, program=program, lease_ms=lease_ms, read_view_ms_max=read_view_ms_max)
        try:
            storage.check_server(identity.did)
        except BaseException:
            storage.close()
            raise
        return storage

    try:
        storage = await asyncio.to_thread(opened)
    except StorageFailed as failed:
        raise Unavailable(f"The database cannot be used: {failed}") from None
    node = ServingNode(storage, identity)
    watching = asyncio.create_task(node.end_relays_to_the_dead())
    try:
        yield node
    finally:
        watching.cancel()
        await asyncio.to_thread(storage.close)
