"""A watcher on a service in process that is looked at after every frame: it holds what the query gives afresh."""

from __future__ import annotations

from service_machine import App
from service_peers import Key, ServiceHarness
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.wire.messages.reading import WatchRequest
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.server.engine.read.reader import Reader

WATCH = 1


class Follower(App):
    """One watch, over any number of connections and nodes."""

    def __init__(self, harness: ServiceHarness, key: Key) -> None:
        super().__init__(harness, key, 99)
        self.seen: list[int] = []
        """The versions that its frames have reached."""

    def follow(self, root: Root) -> None:
        """Asks for the watch, and does not wait."""
        assert self.peer is not None
        query = self.queries[WATCH] = Query(roots=(root,))
        request = WatchRequest(id=self.peer.connection.next_id(), watch=WATCH, query=query)
        self.peer.give(self.peer.connection.request(request))

    async def check(self) -> None:
        """Applies what has come, frame by frame; after each it holds the answer at the version reached."""
        assert self.peer is not None
        assert self.peer.closed is None, self.peer.closed
        events, self.peer.events = self.peer.events, []
        for event in events:
            if isinstance(event, Sync):
                self._apply(event)
                self.seen.append(int(event.to))
                if WATCH in self.holder.filled:
                    assert self.holder.answer(WATCH) == await self._fresh(), f"at {event.to}"
        self._applied = 0

    def held(self) -> dict[str, object]:
        """The values it holds."""
        return {str(id_): value for id_, (value, _, _) in self.holder.answer(WATCH).items()}

    async def returns(self, harness: ServiceHarness | None = None) -> None:
        """Comes back with all that it holds, on another node if one is given."""
        self.disconnect()
        self.harness = harness or self.harness
        await self.connect()

    def take(self) -> None:
        """Nothing is applied but in `check`."""

    async def _fresh(self) -> object:
        space = await self.harness.store.space(self.harness.space)
        at = Query(roots=self.queries[WATCH].roots, version=Version(self.holder.to))
        found = (await Reader(space).query(at)).answer.entities
        return {id_: (one.value, one.version, one.hash) for id_, one in found.items()}
