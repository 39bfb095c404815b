"""A client driven by hand that has a cache: it dies with what was not durable, and starts on what was (CACHE-6)."""

from __future__ import annotations

from typing import Any

from graphs import Stored, naive
from nursery_client import Captured, Client
from nursery_machine import Machine
from nursery_oracle import Log
from stemmadb.client.cache.equality import canonical, query_of
from stemmadb.client.cache.ledger import CacheLedger
from stemmadb.client.cache.records import CacheHead
from stemmadb.client.journal.contents import JournalContents
from stemmadb.client.journal.port import JournalStep, RejectedCommit
from stemmadb.client.nursery.confirmed import Membership
from stemmadb.client.nursery.entities import CachedEntity, CommitName
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.nursery.outcomes import Integrated
from stemmadb.client.nursery.plans import CommitPlan
from stemmadb.client.session import journal_records
from stemmadb.client.watching import Watcher
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.body import read_stored
from stemmadb.protocol.model.values.ids import BranchName, TimeMs
from stemmadb.protocol.wire.messages.sync import Sync

BYTES_MAX = 64 * 1024


class NoOracle:
    """Nothing is compared step by step: a client that has died knows less than one that has not."""

    def __init__(self) -> None:
        self.queries: dict[int, Query] = {}

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_kwargs: set()


class CachedClient(Client):
    """Writes journal and cache in the steps in which a session writes them (CACHE-2)."""

    def begin_cache(self, log: Log, *, bytes_max: int = BYTES_MAX) -> None:
        self.log = log
        self.oracle: Any = NoOracle()
        self.bytes_max = bytes_max
        self.durable = JournalContents()
        self.deaths = 0
        self.restored = 0
        self.was_sent: set[CommitName] = set()
        self._start()

    def _start(self) -> None:
        self.nursery = Nursery(self.key.did)
        self.nursery.record_changes()
        self.ledger = CacheLedger(bytes_max=self.bytes_max)

    # ------------------------------------------------------------ what is written

    def persist(self, **fields: Any) -> None:
        """One step: what is decided, where it stands, and the cache."""
        standing, cache = None, None
        if self.nursery.hash is not None:
            standing = (self.nursery.to, self.nursery.hash)
            head = CacheHead(*standing, TimeMs(1), None, b"", self.nursery.integrated())
            cache = self.ledger.step(self.nursery.confirmed, self.nursery.take_changes(), head).step
        self.durable.take(JournalStep(standing=standing, cache=cache, **fields))

    def write(self, plan: CommitPlan) -> CommitName:
        name = super().write(plan)
        pending = self.nursery.find(name)
        if pending is not None:
            self.persist(session=self.session, add=(journal_records.journaled(pending, self.nursery),))
        return name

    def watch(self, query: Query) -> None:
        super().watch(query)
        self.ledger.register(self.watched, canonical(query), BranchName(query.branch), now=TimeMs(self.watched))

    def forget(self, number: int) -> None:
        super().forget(number)
        self.ledger.unregister(number)

    def _integrate(self, frame: Sync) -> None:
        is_first = not self._has_resumed
        super()._integrate(frame)
        if is_first:
            self.nursery.pass_over(name for name in self.was_sent if name.session != self.session)
        for number in [one for one in self.told if one not in self.watchers]:
            self.ledger.unregister(number)

    def _decided(self, came: Integrated) -> None:
        super()._decided(came)
        if came.confirmed or came.refused:
            self.persist(
                confirm=tuple(map(journal_records.confirmed, came.confirmed)),
                reject=tuple(
                    RejectedCommit(one.pending.name, one.pending.content, one.code, one.message, TimeMs(1))
                    for one in came.refused
                ),
            )

    # ------------------------------------------------------------ dying

    async def die(self) -> None:
        """What was not durable is gone; the next life goes on with the rest, without a server."""
        self.disconnect()
        self.deaths += 1
        self.watchers, self.told = {}, {}
        state = self.durable.state()
        self.durable = JournalContents(state)
        self._start()
        self.was_sent = {one.name for one in state.pending}
        for name in [name for name, how in self.outcomes.items() if how != "fallen"]:
            assert name not in self.was_sent, "a verdict is durable before anybody is told"
        if state.cache is not None:
            assert state.standing == (state.cache.head.to, state.cache.head.hash), "one is older than the other"
            self._restore(state.cache)
        journal_records.restore(self.nursery, state)
        if state.cache is not None:
            self.nursery.pass_over(state.cache.head.integrated)

    def _restore(self, cache: Any) -> None:
        self.ledger.restore(cache)
        whole = [one for one in cache.watches if one.is_whole]
        for one in cache.watches:
            if not one.is_whole:
                self.ledger.unregister(one.number)
        for one in whole:
            watcher = Watcher(one.number, query_of(one.query), space=self.harness.space, limits=self.harness.limits)
            self.watchers[one.number], self.told[one.number] = watcher, {}
            membership = Membership(watcher.branch, names=watcher.coverage.ids, prefixes=watcher.coverage.prefixes)
            self.nursery.watch(one.number, membership, watcher)
        members = {one.number: set(cache.members[one.number]) for one in whole}
        held = {(cache.branches[number], id_) for number, ids in members.items() for id_ in ids}
        entities = {
            key: CachedEntity(read_stored(one.body), one.version, one.hash)
            for key, one in cache.entities.items()
            if key in held
        }
        self.restored += len(members)
        self.nursery.restore(cache.head.to, cache.head.hash, entities, members)

    # ------------------------------------------------------------ comparing

    def capture(self, branch: BranchName, prefixes: tuple[str, ...]) -> Captured:
        del prefixes
        view = self.nursery.view(branch)
        return Captured(view, {id_: view.shown(id_) for id_ in self.ids}, {})

    def check(self, branches: list[BranchName], prefixes: tuple[str, ...]) -> None:
        """What is confirmed of each filled watch is its query over the log at `to` (CACHE-3, WATCH-1)."""
        del branches, prefixes
        confirmed = self.nursery.confirmed
        for number, watcher in self.watchers.items():
            if self.nursery.is_filled(number):
                branch = BranchName(watcher.query.branch)
                there = self.log.state(branch, self.nursery.to)
                stored = {id_: Stored(value) for id_, value in there.items()}
                found = naive(watcher.query, stored, self.harness.space).entities
                members = confirmed.members(number)
                assert members == set(found), f"watch {number} holds {members}, not {set(found)}"
                for id_ in members - {one for on, one in confirmed.doubtful() if on == branch}:
                    cached = confirmed.get((branch, id_))
                    assert cached is not None
                    assert cached.value == there[id_], f"{id_} is {cached.value}, not {there[id_]}"

    def check_watch(self, number: int) -> None:
        if self.watchers[number].is_filled:
            self.look(number)


class CachedMachine(Machine):
    """The schedules of nurseries, with deaths in between."""

    def __init__(self, home: Any, seed: int) -> None:
        super().__init__(home, seed)
        made = []
        for one in self.clients:
            client = CachedClient(home, one.key, one.number, log=self.log, ids=one.ids)
            client.begin_cache(self.log, bytes_max=self.random.choice((BYTES_MAX, BYTES_MAX, 60)))
            made.append(client)
        self.clients: Any = made

    def _steps(self, client: Any) -> list[Any]:
        usual = [one for one in super()._steps(client) if one[0] != self._take_over]
        return [*usual, (self._persist, 14, True), (self._die, 5, client.nursery.to)]

    def _persist(self, client: Any) -> None:
        client.persist()

    async def _die(self, client: Any) -> None:
        self.views = [one for one in self.views if one[0] is not client]
        await client.die()

    def check(self, client: Any) -> None:
        client.check(self.branches, ())
        self.checks += 1

    def check_end(self, client: Any) -> None:
        super().check_end(client)
        client.check(self.branches, ())

    @property
    def lives(self) -> tuple[int, int, int]:
        """How often a client died, how many watches were restored, and how often one started over."""
        clients = self.clients
        return sum(c.deaths for c in clients), sum(c.restored for c in clients), sum(c.resets for c in clients)
