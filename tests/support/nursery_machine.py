"""Random lives of nurseries against a service in process: after each step each shows what its oracle shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from graphs import Stored, link, naive
from nursery_client import Captured, Client, same
from nursery_oracle import Log, after, overlaps
from plain_patch import CannotApply
from service_peers import ALICE, BOB, Peer, ServiceHarness, patch, put, remove, service_harness
from stemmadb.client.nursery.commit_names import CommitNames
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, CachedEntity
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite, PlannedRead
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.patch import footprint
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Local, Version
from stemmadb.protocol.wire.messages.base import WriteRequest
from stemmadb.protocol.wire.messages.structure import CompactRequest, CreateBranch, DeleteBranch

IDS = tuple(EntityId(f"urn:{kind}:{number}") for kind, number in ("a0", "a1", "a2", "b0", "b1"))
PREFIXES = ("urn:", "urn:a:", "urn:b:")
OPEN: dict[str, Any] = {"properties": {"done": {"const": False}}, "required": ["done"], "additionalProperties": True}
ROOTS = (Root("*"), Root("urn:a:*"), Root("urn:b:*"), Root(IDS[0]), Root(IDS[3]), Root("urn:a:*", "", OPEN),
         Root("*", "", OPEN), Root(IDS[1], "", True), Root("urn:b:*", "/next", True))  # fmt: skip
TURNS = 12
"""Turns of the loop after each step: what is not done by then is done later."""
PATIENCE = 200
"""Turns until a request that is worked on has its answer."""
VIEWS_MAX = 5
WATCHES_MAX = 4
ROUNDS_MAX = 8
"""Rounds until everybody is told everything, at most: a commit may have to wait for a new session."""
STOLEN = 1_000
"""How far ahead of us somebody with a copy of our journal writes: our next commits are overtaken."""


class Counts(NamedTuple):
    """What happened in a life, so that a test can see that enough did."""

    confirmed: int
    rejected: int
    fallen: int
    skipped: int
    resets: int
    renewed: int
    checks: int


class Machine:
    """One seed, one life."""

    def __init__(self, home: ServiceHarness, seed: int) -> None:
        self.harness, self.random = home, Random(seed)
        self.log = Log()
        keys = (BOB, BOB, ALICE)
        self.clients = [Client(home, key, n, log=self.log, ids=IDS) for n, key in enumerate(keys, start=1)]
        self.views: list[tuple[Client, Captured]] = []
        self.branches = [MAIN]
        self.trace: list[str] = []
        self.made = 0
        self.checks = 0
        self.skipped = 0
        self.admin: Peer

    async def run(self, steps: int) -> Counts:
        space = await self.harness.store.space(self.harness.space)
        self.admin = await self.harness.peer(ALICE).open()
        for record, told in await space.read(lambda reader: list(reader.history())):
            self.log.take(record, told)
        end = space.subscribe(self._durable)
        try:
            await self._begin()
            for _ in range(steps):
                await self.step()
                await self.harness.settle()
            await self.heal()
        finally:
            end()
        return self.counts()

    async def _begin(self) -> None:
        """Something is there, and somebody watches it."""
        self.admin.send(*(put(id_, self.value()) for id_ in IDS if self.random.random() < 0.6), put(IDS[0], {"n": 0}))
        for client in self.clients:
            if self.random.random() < 0.8:
                await client.connect()
                self._watch(client)
                await self.harness.settle(2)
                while client.waits and self.random.random() < 0.9:
                    client.take()

    def _durable(self, batch: Sequence[Accepted]) -> None:
        for one in batch:
            self.log.take(one.commit, one.facts)

    def counts(self) -> Counts:
        ends = [how for client in self.clients for how in client.outcomes.values()]
        return Counts(
            ends.count("confirmed"),
            ends.count("rejected"),
            ends.count("fallen"),
            self.skipped,
            sum(client.resets for client in self.clients),
            sum(client.sessions - 1 for client in self.clients),
            self.checks,
        )

    # ------------------------------------------------------------ steps

    async def step(self) -> None:
        client = self.random.choice(self.clients)
        possible = [(does, weight) for does, weight, may in self._steps(client) if may]
        does = self.random.choices([does for does, _ in possible], [weight for _, weight in possible])[0]
        self.note(client, does.__name__.strip("_"))
        done = does(client)
        if asyncio.iscoroutine(done):
            await done
        self.check(client)

    def _steps(self, client: Client) -> list[tuple[Callable[[Client], Any], int, object]]:
        """What can happen, how often, and whether it can happen now."""
        is_there = client.peer is not None and not client.peer.is_lost
        return [
            (self._write, 20, True),
            (self._send, 30, client.unsent),
            (self._take, 20, client.waits),
            (self._look, 3, client.watchers),
            (self._capture, 8, True),
            (self._other, 7, True),
            (self._watch, 5, len(client.watchers) < WATCHES_MAX),
            (self._unwatch, 2, client.watchers),
            (self._ask, 20, client.nursery.wanted()),
            (self._connect, 40, not is_there),
            (self._drop, 3, is_there),
            (self._renew, 3, is_there),
            (self._branch, 1, True),
            (self._compact, 1, True),
            (self._take_over, 2, is_there),
        ]

    def note(self, client: Client, what: object) -> None:
        self.trace.append(f"{client.number}: {what}")

    def _write(self, client: Client) -> None:
        """Some transactions, each on a view of now or on one captured before."""
        for _ in range(self.random.choice((1, 2, 4))):
            older = [captured for owner, captured in self.views if owner is client]
            if older and self.random.random() < 0.4:
                captured = self.random.choice(older)
            else:
                captured = client.capture(self.random.choice(self.branches), PREFIXES)
            plan = Planning(self, client, captured).plan()
            if plan.writes:
                name = client.write(plan)
                self.note(
                    client, f"{name.local} on {plan.branch} {[_short(one) for one in plan.writes]} {plan.reads}"
                )

    def _send(self, client: Client) -> None:
        for _ in range(self.random.randint(1, len(client.unsent))):
            client.send()

    def _take(self, client: Client) -> None:
        for _ in range(self.random.randint(1, 4)):
            if client.waits:
                client.take()
                self.check(client)

    def _look(self, client: Client) -> None:
        for number in client.watchers:
            client.look(number)

    def _capture(self, client: Client) -> None:
        self.views.append((client, client.capture(self.random.choice(self.branches), PREFIXES)))
        del self.views[:-VIEWS_MAX]

    def _other(self, client: Client) -> None:
        """Somebody else writes."""
        del client
        id_, n = self.random.choice(IDS), self.random.randrange(100)
        operations: list[Operation] = [
            put(id_, self.value()), remove(id_), patch(id_, {"op": "increment", "path": "/n", "by": n}),
            patch(id_, {"op": "add", "path": "/t", "value": n}), patch(id_, {"op": "remove", "path": "/t"}),
        ]  # fmt: skip
        self.admin.send(self.random.choice(operations), branch=self.random.choice(self.branches))

    def _watch(self, client: Client) -> None:
        query = Query(roots=(self.random.choice(ROOTS),), branch=self.random.choice(self.branches))
        self.note(client, f"watches {query}")
        client.watch(query)

    def _unwatch(self, client: Client) -> None:
        client.unwatch(self.random.choice(list(client.watchers)))

    def _ask(self, client: Client) -> None:
        client.ask(self.random.choice(sorted(client.nursery.wanted())))

    async def _connect(self, client: Client) -> None:
        await client.connect()

    def _drop(self, client: Client) -> None:
        client.disconnect()

    async def _renew(self, client: Client) -> None:
        """It sends everything and is told of a take-over; the verdicts are lost with the connection (NURSERY-5)."""
        while client.unsent:
            client.send()
        await self.harness.settle(2)
        client.disconnect()
        client.must_renew = True

    async def _branch(self, client: Client) -> None:
        del client
        if len(self.branches) > 1 and self.random.random() < 0.4:
            await self._administer(DeleteBranch, name=self.branches.pop())
        else:
            name = BranchName(f"draft-{self.made}")
            await self._administer(CreateBranch, name=name, parent=self.branches[-1])
            self.branches.append(name)

    async def _compact(self, client: Client) -> None:
        """Whoever stands below the floor starts over when it comes back."""
        del client
        await self._administer(CompactRequest, floor=self.log.version)

    async def _administer(self, kind: type[WriteRequest], **fields: Any) -> None:
        self.made += 1
        self.harness.turns = PATIENCE
        await self.admin.ask(kind, operation=self.made.to_bytes(16, "big"), nonce=bytes(16), **fields)
        self.harness.turns = TURNS

    async def _take_over(self, client: Client) -> None:
        """Somebody has a copy of its journal: takes its session, and sometimes a local of it."""
        thief = await self.harness.peer(client.key, session=client.session).open()
        if self.random.random() < 0.5:
            local = Local(client.issued + STOLEN)
            thief.send(put(self.random.choice(IDS), {"stolen": True}), local=local, nonce=b"t" * 16)
        await self.harness.settle()
        thief.lose()

    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = {"n": self.random.randrange(10), "done": self.random.random() < 0.5}
        if self.random.random() < 0.3:
            value["next"] = link(self.random.choice(IDS))
        return value

    # ------------------------------------------------------------ comparing

    def check(self, client: Client) -> None:
        client.check(self.branches, PREFIXES)
        self.checks += 1
        self.skipped += len(client.oracle.picture().skipped)
        for number in client.watchers:
            if self.random.random() < 0.3:
                client.check_watch(number)
        for owner, captured in self.views:
            if owner is client:
                same(captured)

    async def heal(self) -> None:
        """Everybody comes back, sends and takes everything: then all is decided, once, and all show the same."""
        for _ in range(ROUNDS_MAX):
            for client in self.clients:
                await self._bring_back(client)
                self.check(client)
            await self.harness.settle(2)
            if not any(client.waits or client.nursery.pending() for client in self.clients):
                break
        for client in self.clients:
            self.check_end(client)

    async def _bring_back(self, client: Client) -> None:
        if client.peer is None or client.peer.is_lost or client.must_renew:
            client.disconnect()
            await client.connect()
        await self.harness.settle()
        while client.waits or client.unsent:
            if client.waits:
                client.take()
            else:
                client.send()
            await self.harness.settle()

    def check_end(self, client: Client) -> None:
        assert not client.nursery.pending(), f"{client.nursery.pending()} were never decided"
        for name, how in client.outcomes.items():
            is_in_the_log = (client.key.did, name) in self.log.authors
            assert is_in_the_log is (how == "confirmed"), f"{name} is {how}"
        for number, watcher in client.watchers.items():
            assert watcher.is_filled, f"watch {number} was never filled"
            client.check_watch(number)
            at_server = self.log.state(BranchName(watcher.query.branch), self.log.version)
            found = naive(
                watcher.query, {id_: Stored(value) for id_, value in at_server.items()}, self.harness.space
            ).entities
            assert client.told[number] == {id_: value for id_, value in at_server.items() if id_ in found}


class Planning:
    """What a random transaction comes to on a view: writes claimed or blind, reads with all they are through.

    It writes only what applies to what the view shows, as an app does that was told at once.
    """

    def __init__(self, machine: Machine, client: Client, captured: Captured) -> None:
        self.machine, self.random, self.client = machine, machine.random, client
        self.view, self.shows = captured.view, captured.shows
        self.now: dict[EntityId, Any] = {}
        self.writes: list[CommitWrite] = []
        self.reads: list[PlannedRead] = []
        self.bases: dict[EntityId, CachedEntity] = {}

    def plan(self) -> CommitPlan:
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._write(self.random.choice(IDS))
        if self.random.random() < 0.3:
            self._read(self.random.choice(IDS), "")
        if self.random.random() < 0.1:
            self._list(self.random.choice(PREFIXES))
        written = {write.id for write in self.writes}
        bases = tuple((id_, held) for id_, held in self.bases.items() if id_ in written)
        return CommitPlan(self.view.branch, tuple(self.writes), tuple(self.reads), bases=bases)

    def _write(self, id_: EntityId) -> None:
        write = self._operation(id_)
        before = self._shown(id_)
        if before is UNKNOWN and write.op == "patch" and (not write.blind or self.random.random() < 0.5):
            before = self._fetched(id_)
        try:
            value = after(write, before)
        except CannotApply:
            return
        if not write.blind:
            for path in [""] if write.paths is None else self._claimed(write):
                self._read(id_, path)
        self.now[id_] = value
        self.writes.append(write)

    def _operation(self, id_: EntityId) -> CommitWrite:
        blind, kind, n = self.random.random() < 0.3, self.random.random(), self.random.randrange(100)
        if kind < 0.3:
            value: Any = self.machine.value()
            return CommitWrite("set", id_, encode(value), value, None, blind)
        if kind < 0.45:
            return CommitWrite("delete", id_, None, None, None, blind)
        operations: list[Any] = [self.random.choice([
            {"op": "increment", "path": "/n", "by": n}, {"op": "increment", "path": "/n", "by": n},
            {"op": "replace", "path": "/n", "value": n}, {"op": "add", "path": "/t", "value": n},
            {"op": "remove", "path": "/t"}, {"op": "replace", "path": "/done", "value": n % 2 == 0},
            {"op": "add", "path": "/next", "value": link(IDS[n % len(IDS)])},
            {"op": "test", "path": "/n", "value": n % 3},
        ]) for _ in range(self.random.choice((1, 1, 2)))]  # fmt: skip
        return CommitWrite("patch", id_, encode(operations), operations, footprint(operations).writes, blind)

    def _claimed(self, write: CommitWrite) -> list[str]:
        operations: Any = write.value
        found = footprint(operations)
        return [path for path in (*found.writes, *found.reads) if path not in found.increments]

    def _shown(self, id_: EntityId) -> Any:
        shown = self.shows[id_]
        return self.now.get(id_, UNKNOWN if shown is None else shown.value)

    def _fetched(self, id_: EntityId) -> Any:
        """What the server says of it at the view's version; own pending layers lie on top (NURSERY-8)."""
        log, branch = self.machine.log, self.view.branch
        held = [fact for fact in log.seen(branch, self.view.to) if fact.id == id_]
        value = log.state(branch, self.view.to).get(id_, ABSENT)
        version, hash_ = (held[-1].version, held[-1].hash) if held else (Version(0), facts.empty(id_))
        self.bases[id_] = CachedEntity(value, version, hash_, self.view.to)
        return self.view.replayed(id_, value).value

    def _read(self, id_: EntityId, path: str) -> None:
        shown = self.shows[id_]
        basis = self.view.to if shown is None or id_ in self.bases else shown.basis
        layers = () if shown is None else shown.layers
        through = CommitNames.of(one.name for one in layers if overlaps(one.paths, path))
        self.reads.append(PlannedRead(basis, id_, path=path, through=through))

    def _list(self, prefix: str) -> None:
        if self.view.listing(prefix) is not None:
            under = [one for id_, one in self.shows.items() if one is not None and id_.startswith(prefix)]
            through = CommitNames.of(dict.fromkeys(layer.name for one in under for layer in one.layers))
            self.reads.append(PlannedRead(self.view.to, prefix=prefix, through=through))


def _short(write: CommitWrite) -> str:
    return f"{write.op} {write.id} {write.value}{' blind' if write.blind else ''}"


def live(seed: int, *, steps: int = 25) -> Counts:
    """One life; on a difference the error tells the seed and what happened."""

    async def run() -> Counts:
        async with service_harness() as home:
            home.turns = TURNS
            machine = Machine(home, seed)
            try:
                return await machine.run(steps)
            except AssertionError as error:
                error.add_note("\n".join([f"seed {seed}, {len(machine.trace)} steps:", *machine.trace]))
                raise

    return asyncio.run(run())
