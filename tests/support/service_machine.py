"""Random lives of clients against a service in process: what a watcher holds equals the query afresh (WATCH-1)."""

from __future__ import annotations

from random import Random
from typing import Any

from graphs import link, random_id, random_root, random_value
from service_holder import Holder
from service_peers import ALICE, BOB, CAROL, Key, Peer, ServiceHarness, patch, put, remove
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.request import Content, Operation
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import Local, Version
from stemmadb.protocol.wire.connection.client_side import Answered
from stemmadb.protocol.wire.messages.reading import UnwatchRequest, WatchRequest
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.protocol.wire.messages.structure import CreateBranch, DeleteBranch
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.server.engine.read.reader import Reader

COUNT = 12
"""How many different entities there are."""
ROOTS = (Root("*"), Root("urn:*"), Root("urn:e:1*"), Root("*", "", True))


class App:
    """A client that comes and goes, and keeps what it holds."""

    def __init__(self, harness: ServiceHarness, key: Key, name: int) -> None:
        self.harness = harness
        self.key = key
        self.session = name.to_bytes(16, "big")
        self.holder = Holder()
        self.queries: dict[int, Query] = {}
        self.local = 0
        self.pending: dict[int, Content] = {}
        self.peer: Peer | None = None
        self._applied = 0

    async def connect(self) -> None:
        holder = self.holder
        watches = tuple(
            HeldWatch(watch=number, query=query, filled=number in holder.filled)
            for number, query in self.queries.items()
        )
        for number in self.queries:
            if number not in holder.filled:
                holder.forget(number)
        self.peer = self.harness.peer(self.key, session=self.session)
        self._applied = 0
        await self.peer.open(
            to=holder.to,
            hash=holder.hash if holder.to else None,
            watches=watches,
            lowest=Local(min(self.pending, default=self.local + 1)),
            held=tuple(Local(one) for one in self.pending),
        )
        self.take()
        if self.peer.closed is None:
            for local, content in self.pending.items():
                self._send(local, content)

    def disconnect(self) -> None:
        if self.peer is not None:
            self.take()
            if not self.peer.is_lost:
                self.peer.lose()
            self.peer = None

    def take(self) -> None:
        """Applies what came, in order: a watch ends where its answer stands in the stream."""
        assert self.peer is not None
        events = self.peer.events
        while self._applied < len(events):
            event = events[self._applied]
            self._applied += 1
            if isinstance(event, Sync):
                self._apply(event)
            elif isinstance(event, Answered) and isinstance(event.request, UnwatchRequest):
                self.forget(event.request.watch)

    def _apply(self, frame: Sync) -> None:
        self.holder.sent = dict(self.pending)
        self.holder.apply(frame)
        for verdict in frame.verdicts:
            self.pending.pop(verdict.local, None)
        for number, code in self.holder.ended.items():
            assert code != "internal", f"watch {number} ended by an internal error"
            self.queries.pop(number, None)
        self.holder.ended.clear()

    def forget(self, number: int) -> None:
        self.queries.pop(number, None)
        self.holder.forget(number)

    def commit(self, *operations: Operation, branch: str) -> None:
        self.local += 1
        content = Content(operations=operations, branch=branch)  # type: ignore[arg-type]
        self.pending[self.local] = content
        self._send(self.local, content)

    def _send(self, local: int, content: Content) -> None:
        assert self.peer is not None
        if self.peer.connection.may_commit and not self.peer.is_lost:
            self.peer.send(*content.operations, branch=content.branch, local=Local(local))


class Machine:
    """One seed, one life."""

    def __init__(self, harness: ServiceHarness, seed: int) -> None:
        self.harness = harness
        self.random = Random(seed)
        self.apps = [App(harness, key, number) for number, key in enumerate((ALICE, BOB, BOB, CAROL), start=1)]
        self.branches = ["main"]
        self.made = 0
        self.checked = 0

    async def run(self, steps: int) -> None:
        for app in self.apps:
            await app.connect()
        for _ in range(steps):
            await self._step()
            if self.random.random() < 0.3:
                await self.harness.settle()
                await self.check()
        await self.heal()

    async def heal(self) -> None:
        """Everybody comes back and reads on; in the end all is told."""
        for app in self.apps:
            if app.peer is not None and not app.peer.is_lost:
                app.peer.read_on()
            await self.harness.settle()
            if app.peer is None or app.peer.is_lost:
                app.disconnect()
                await app.connect()
        await self.harness.settle(5)
        await self.check()
        for app in self.apps:
            assert not app.pending, f"{app.pending} were never decided"
            assert app.queries.keys() == app.holder.filled, "a watch was never filled"

    async def _step(self) -> None:
        app = self.random.choice(self.apps)
        if app.peer is not None and app.peer.is_lost:
            app.disconnect()
        if app.peer is None:
            await app.connect()
            return
        does = self.random.choices(
            [self._write, self._watch, self._unwatch, self._drop, self._stall, self._branch, self._take_over],
            [60, 12, 3, 6, 8, 2, 2],
        )[0]
        await does(app)

    async def _write(self, app: App) -> None:
        if app.key is CAROL:
            app = self.apps[0]
        if app.peer is None or app.peer.is_lost:
            return
        for _ in range(self.random.randint(1, 4)):
            operations = [self._operation() for _ in range(self.random.randint(1, 3))]
            app.commit(*operations, branch=self.random.choice(self.branches))

    def _operation(self) -> Operation:
        id_ = random_id(self.random, COUNT)
        kind = self.random.random()
        if kind < 0.2:
            return remove(id_)
        if kind < 0.4:
            return patch(id_, {"op": "add", "path": "/n", "value": self.random.randrange(1_000)})
        value: Any = random_value(self.random, COUNT)
        if kind > 0.7:
            value = {"to": link(random_id(self.random, COUNT)), "n": self.random.randrange(9)}
        return put(id_, value)

    async def _watch(self, app: App) -> None:
        assert app.peer is not None
        number = self.random.randint(1, 4)
        root = random_root(self.random, COUNT) if self.random.random() < 0.7 else self.random.choice(ROOTS)
        query = Query(roots=(root,), branch=self.random.choice(self.branches))
        if not app.peer.wire.is_reading or app.peer.is_lost:
            return
        app.holder.filled.discard(number)
        app.queries[number] = query
        request = WatchRequest(id=app.peer.connection.next_id(), watch=number, query=query)
        app.peer.give(app.peer.connection.request(request))
        await self.harness.settle()
        app.take()
        if app.peer.answers(request) != [None]:  # refused, or not answered yet: it comes again and asks anew
            app.disconnect()
            app.forget(number)

    async def _unwatch(self, app: App) -> None:
        assert app.peer is not None
        if app.queries and app.peer.wire.is_reading and not app.peer.is_lost:
            number = self.random.choice(list(app.queries))
            await app.peer.ask(UnwatchRequest, watch=number)
            app.take()

    async def _drop(self, app: App) -> None:
        app.disconnect()

    async def _stall(self, app: App) -> None:
        assert app.peer is not None
        if app.peer.wire.is_reading:
            app.peer.stop_reading()
            app.peer.wire.unsent = 1 << 30
        else:
            app.peer.read_on()

    async def _branch(self, _: App) -> None:
        alice = self.apps[0].peer
        if alice is None or alice.is_lost or not alice.wire.is_reading:
            return
        self.made += 1
        operation, nonce = self.made.to_bytes(16, "big"), bytes(16)
        try:
            if len(self.branches) > 2:
                name = self.branches.pop()
                await alice.ask(DeleteBranch, operation=operation, nonce=nonce, name=name)
            else:
                parent = self.random.choice(self.branches)
                name = f"draft-{self.made}"
                await alice.ask(CreateBranch, operation=operation, nonce=nonce, name=name, parent=parent)
                self.branches.append(name)
        except StemmaError:
            pass

    async def _take_over(self, app: App) -> None:
        """A second connection of the same session, while the first still stands."""
        old = app.peer
        assert old is not None
        app.take()
        if old.wire.is_reading:
            await app.connect()
            assert old.closed is not None
            assert old.closed.error.code in ("taken_over", "going_away"), old.closed

    async def check(self) -> None:
        """Each filled watch holds what the query afresh gives at the version reached."""
        for app in self.apps:
            if app.peer is None or not app.peer.wire.is_reading:
                continue
            app.take()
            space = await self.harness.store.space(self.harness.space)
            for number in app.holder.filled & app.queries.keys():
                query = app.queries[number]
                at = Query(roots=query.roots, branch=query.branch, version=Version(app.holder.to))
                found = (await Reader(space).query(at)).answer.entities
                expected = {id_: (one.value, one.version, one.hash) for id_, one in found.items()}
                assert app.holder.answer(number) == expected, f"watch {number}, {query} at {app.holder.to}"
                self.checked += 1
