"""A client driven by hand: a nursery and its oracle, told the same, and a connection whose messages wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nursery_oracle import Log, Oracle, Picture, Place
from service_peers import Key, Peer, ServiceHarness
from stemmadb.client.nursery.confirmed import Membership
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, CachedEntity, CommitName
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.nursery.outcomes import Integrated
from stemmadb.client.nursery.pending import Pending, named
from stemmadb.client.nursery.plans import CommitPlan
from stemmadb.client.nursery.shown import Shown, ShownLayer, ShownLayers
from stemmadb.client.nursery.view import NurseryView
from stemmadb.client.watching import Watcher
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import read_stored
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Local
from stemmadb.protocol.model.values.json_values import equal
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import Answered, ClientEvent
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest, UnwatchRequest, WatchRequest
from stemmadb.protocol.wire.messages.session import HeldWatch, Hello
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.records import whole_body

RENEWING = ("identity_clash", "overtaken")
"""What makes new commits use a new session (NURSERY-5)."""


@dataclass
class Captured:
    """A view, and what the oracle saw at that moment: it must stay so (NURSERY-2)."""

    view: NurseryView
    shows: dict[EntityId, Shown | None]
    listings: dict[str, dict[EntityId, Any] | None]


class Client:
    """Whatever happens to the nursery happens to the oracle; `check` compares the two."""

    def __init__(
        self, harness: ServiceHarness, key: Key, number: int, *, log: Log, ids: tuple[EntityId, ...]
    ) -> None:
        self.harness, self.key, self.number, self.ids = harness, key, number, ids
        self.nursery = Nursery()
        self.oracle = Oracle(log)
        self.sessions = 0
        self.issued = 0
        self.renew()
        self.peer: Peer | None = None
        self.watchers: dict[int, Watcher] = {}
        self.told: dict[int, dict[str, Any]] = {}
        self.outcomes: dict[CommitName, str] = {}
        self.must_renew = False
        self.resets = 0
        self.watched = 0
        self._taken = 0
        self._sent: set[CommitName] = set()
        self._has_resumed = False

    def renew(self) -> None:
        """A new session: its locals begin again."""
        self.sessions += 1
        self.session = bytes([self.number, self.sessions]).ljust(16, b".")
        self.issued, self.must_renew = 0, False

    # ------------------------------------------------------------ the connection

    async def connect(self) -> None:
        """Says where it stands (RESUME-1). What was asked on the connection before is asked again or given up."""
        if self.must_renew:
            self.renew()
        for number in self.watchers:
            if not self.nursery.is_filled(number):
                self.nursery.unfill(number)
                self.oracle.unfill(number)
        own = [one.name.local for one in self.nursery.pending() if one.name.session == self.session]
        self.disconnect()
        self.peer = self.harness.peer(self.key, session=self.session)
        self._taken, self._sent, self._has_resumed = 0, set(), self.nursery.to == EMPTY_SPACE
        await self.peer.open(
            to=self.nursery.to,
            hash=self.nursery.hash if self.nursery.to else None,
            lowest=Local(min(own, default=self.issued + 1)),
            held=tuple(own),
            watches=tuple(
                HeldWatch(watch=number, query=watcher.query, filled=self.nursery.is_filled(number))
                for number, watcher in self.watchers.items()
            ),
        )

    def disconnect(self) -> None:
        """What was sent and not taken is lost."""
        if self.peer is not None:
            if not self.peer.is_lost:
                self.peer.lose()
            self.harness.peers.remove(self.peer)
        self.peer = None

    @property
    def waits(self) -> int:
        """How many messages were sent to it that it did not take."""
        return 0 if self.peer is None else len(self.peer.events) - self._taken

    def take(self) -> None:
        """Takes the next message."""
        assert self.peer is not None
        event = self.peer.events[self._taken]
        self._taken += 1
        self._happened(event)

    def _happened(self, event: ClientEvent) -> None:
        if isinstance(event, Sync):
            self._integrate(event)
        elif isinstance(event, Answered):
            self._answered(event)
        elif isinstance(event, Closed):
            assert event.error.code == "taken_over", event
            self.must_renew = True
            self.disconnect()
        else:
            assert isinstance(event, Hello), event

    def _integrate(self, frame: Sync) -> None:
        self.resets += frame.reset is not None
        came = self.nursery.integrate(frame, session=self.session, issued=self.issued)
        self.oracle.frame(frame, self.session)
        self._has_resumed = True
        self._decided(came)
        for number, _ in came.ended:
            del self.watchers[number], self.told[number]

    def _decided(self, came: Integrated) -> None:
        for one in came.confirmed:
            self._ends(one.pending.name, "confirmed")
        for refusal in came.refused:
            self._ends(refusal.pending.name, "rejected" if refusal.because is None else "fallen")
        self.must_renew |= came.strangers or any(one.code in RENEWING for one in came.refused)

    def _ends(self, name: CommitName, how: str) -> None:
        assert name not in self.outcomes, f"{name} is {how} after it was {self.outcomes[name]}"
        self.outcomes[name] = how

    def _answered(self, event: Answered) -> None:
        if isinstance(event.request, UnwatchRequest):
            self.forget(event.request.watch)
        elif isinstance(event.result, QueryAnswer) and isinstance(event.request, QueryRequest):
            self._learn(event.request.query, event.result)

    def _learn(self, query: Query, answer: QueryAnswer) -> None:
        place = (BranchName(query.branch), EntityId(query.roots[0].id))
        held = None
        for one in answer.entities:
            held = CachedEntity(read_stored(whole_body(one)), one.version, one.hash)
            if place in self.oracle.written():
                self.oracle.learn(place, held.value, answer.version)
        self.nursery.answered(place, held, answer.version)

    # ------------------------------------------------------------ what its app does

    def capture(self, branch: BranchName, prefixes: tuple[str, ...]) -> Captured:
        """A view, as a transaction begins."""
        picture = self.oracle.picture()
        shows = {id_: self._expected((branch, id_), picture) for id_ in self.ids}
        listings = {prefix: self._listing(branch, prefix, shows) for prefix in prefixes}
        return Captured(self.nursery.view(branch), shows, listings)

    def _expected(self, place: Place, picture: Picture) -> Shown | None:
        """The entity as the oracle shows it."""
        layers = picture.layers.get(place, [])
        value = self.oracle.shown(place, picture)
        if value is UNKNOWN and not layers:
            return None
        return Shown(value, self.oracle.basis(place), ShownLayers.of(ShownLayer(*one) for one in layers))

    def _listing(
        self, branch: BranchName, prefix: str, shows: dict[EntityId, Shown | None]
    ) -> dict[EntityId, Any] | None:
        if not self.oracle.is_listed(branch, prefix):
            return None
        found = {id_: one.value for id_, one in shows.items() if one is not None and id_.startswith(prefix)}
        return {id_: value for id_, value in found.items() if value is not ABSENT}

    def write(self, plan: CommitPlan) -> CommitName:
        """A transaction ends: its commit is applied, or refused at once."""
        self.issued += 1
        name = CommitName(self.session, Local(self.issued))
        nonce = bytes([self.number]) + self.issued.to_bytes(15, "big")
        refusal = self.nursery.add(named(plan, name, nonce=nonce), plan.bases)
        self.oracle.write(name, plan)
        if refusal is not None:
            self._ends(name, "fallen")
        return name

    @property
    def unsent(self) -> list[Pending]:
        """The commits that can be sent now, the oldest first: once on each connection (RESUME-2)."""
        if self.peer is None or self.peer.is_lost or not self._has_resumed or not self.peer.connection.may_commit:
            return []
        return [one for one in self.nursery.pending() if one.name not in self._sent]

    def send(self) -> None:
        """Sends the oldest."""
        assert self.peer is not None
        pending = self.unsent[0]
        self._sent.add(pending.name)
        session = None if pending.name.session == self.session else pending.name.session
        message = CommitMessage(
            local=pending.name.local, nonce=pending.nonce, content=pending.content, session=session
        )
        self.peer.give(self.peer.connection.commit(message))

    def watch(self, query: Query) -> None:
        """Begins a watch, whether there is a connection or not."""
        self.watched += 1
        number = self.watched
        names = [one.id for one in query.roots if _selects_by_id(one) and one.id[-1] != "*"]
        prefixes = [one.id[:-1] for one in query.roots if _selects_by_id(one) and one.id[-1] == "*"]
        self.watchers[number] = Watcher(number, query, space=self.harness.space, limits=self.harness.limits)
        self.told[number] = {}
        branch = BranchName(query.branch)
        self.nursery.watch(number, Membership(branch, names=names, prefixes=prefixes), self.watchers[number])
        self.oracle.queries[number] = query
        self._ask(WatchRequest, watch=number, query=query)

    def unwatch(self, number: int) -> None:
        """Ends a watch: where the answer stands in the stream, or at once if there is no connection."""
        if not self._ask(UnwatchRequest, watch=number):
            self.forget(number)

    def forget(self, number: int) -> None:
        if number in self.watchers:
            self.nursery.unwatch(number)
            self.oracle.unwatch(number)
            del self.watchers[number], self.told[number]

    def ask(self, place: Place) -> None:
        """Asks for an entity that is wanted (SYNC-4)."""
        self._ask(QueryRequest, query=Query(roots=(Root(place[1]),), branch=place[0]))

    def _ask(self, kind: Any, **fields: Any) -> bool:
        if self.peer is None or self.peer.is_lost:
            return False
        self.peer.give(self.peer.connection.request(kind(id=self.peer.connection.next_id(), **fields)))
        return True

    def look(self, number: int) -> None:
        """The app takes what a watch has to tell, and holds what it was told."""
        change = self.watchers[number].take(self.nursery)
        if change is None:
            return
        held = self.told[number]
        assert not change.entered.keys() & held.keys(), "what entered was there"
        assert change.updated.keys() <= held.keys(), "what was updated was not there"
        assert not any(equal(value, held[id_]) for id_, value in change.updated.items()), "nothing was updated"
        assert set(change.left) <= held.keys(), "what left was not there"
        held |= change.entered | change.updated
        for id_ in change.left:
            del held[id_]

    # ------------------------------------------------------------ comparing

    def check(self, branches: list[BranchName], prefixes: tuple[str, ...]) -> None:
        """Every shown value, every commit, and what is wanted."""
        oracle, nursery = self.oracle, self.nursery
        assert nursery.to == oracle.to
        assert [one.name for one in nursery.pending()] == [one.name for one in oracle.pending]
        assert self.outcomes == oracle.ended, f"{self.number}: {self.outcomes} is not {oracle.ended}"
        picture = oracle.picture()
        hidden = {one.name for one in nursery.pending() if not one.is_shown}
        assert hidden == {one.name for one in oracle.pending} & {*picture.skipped, *oracle.landed}
        for branch in branches:
            captured = self.capture(branch, prefixes)
            same(captured)
            for id_ in self.ids:
                shown, expected = nursery.value(branch, id_), oracle.shown((branch, id_), picture)
                assert alike(shown, expected), f"{branch} {id_} shows {shown}, not {expected}"
        unknown = {place for place in oracle.written() if oracle.shown(place, picture) is UNKNOWN}
        assert nursery.wanted() == unknown, f"wanted are {nursery.wanted()}, not {unknown}"

    def check_watch(self, number: int) -> None:
        """What the app was told of a watch is its query over all that is shown (NURSERY-4)."""
        if self.watchers[number].is_filled:
            self.look(number)
            expected = self.oracle.answer(number, space=self.harness.space)
            told = self.told[number]
            assert alike(told, expected), f"watch {number} told {told}, not {expected}"


def same(captured: Captured) -> None:
    """The view shows what the oracle saw when it was captured."""
    view = captured.view
    for id_, expected in captured.shows.items():
        shown = view.shown(id_)
        assert _told(shown) == _told(expected), f"{view.branch} {id_} at {view.to}: {shown}, not {expected}"
    for prefix, listing in captured.listings.items():
        layers = {id_: shown.layers for id_, shown in captured.shows.items() if shown is not None and shown.layers}
        names = {id_: _names(over) for id_, over in layers.items() if id_.startswith(prefix)}
        assert {id_: _names(over) for id_, over in view.layers_under(prefix).items()} == names
        found = view.listing(prefix)
        values = None if found is None else {id_: one.value for id_, one in found.items()}
        assert values == listing, f"{view.branch} {prefix}* at {view.to}: {values}, not {listing}"


def _told(shown: Shown | None) -> Any:
    """All that a view says of an entity; paths are a set."""
    if shown is None:
        return None
    layers = [(one.name, None if one.paths is None else set(one.paths), one.value) for one in shown.layers]
    return shown.value, shown.basis, layers


def _names(layers: ShownLayers) -> list[CommitName]:
    return [one.name for one in layers]


def alike(one: Any, other: Any) -> bool:
    if one in (ABSENT, UNKNOWN) or other in (ABSENT, UNKNOWN):
        return one is other
    return equal(one, other)


def _selects_by_id(root: Root) -> bool:
    return root.schema is None and not root.path
