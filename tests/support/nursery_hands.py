"""A nursery in the hand: a space decides, and frames are made when a test says so, with what it says in them.

The space is the pure admission; frames are made by the rules of SYNC-1..3 for watches of whole prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from space import ALICE, BOB, SPACE, MemorySpace, session_of
from stemmadb.client.nursery.commit_names import CommitNames
from stemmadb.client.nursery.confirmed import Membership
from stemmadb.client.nursery.entities import CachedEntity, CommitName
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.nursery.outcomes import Integrated
from stemmadb.client.nursery.pending import named
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite, PlannedRead
from stemmadb.client.nursery.shown import Shown
from stemmadb.client.watching import Watcher
from stemmadb.protocol.model.commit.admission import Accepted as Decided
from stemmadb.protocol.model.commit.admission import RefusedCommit
from stemmadb.protocol.model.commit.proposal import prepare
from stemmadb.protocol.model.commit.request import Operation, digest_request
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.patch import footprint
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec.msgpack_codec import read_content
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict
from stemmadb.protocol.wire.messages.sync import CommitItem, Entered, Left, Sync

SESSION = session_of("me")


def setting(id_: str, value: Any, *, blind: bool = False) -> CommitWrite:
    return CommitWrite("set", EntityId(id_), encode(value), value, None, blind)


def patching(id_: str, *operations: dict[str, Any], blind: bool = False) -> CommitWrite:
    listed: Any = list(operations)
    return CommitWrite("patch", EntityId(id_), encode(listed), listed, footprint(listed).writes, blind)


def adding(id_: str, by: int) -> CommitWrite:
    """An increment of `n`, which claims nothing."""
    return patching(id_, {"op": "increment", "path": "/n", "by": by})


def deleting(id_: str, *, blind: bool = False) -> CommitWrite:
    return CommitWrite("delete", EntityId(id_), None, None, None, blind)


class Hand:
    """One client, one space, and what goes between them."""

    def __init__(self) -> None:
        self.space = MemorySpace()
        self.nursery = Nursery()
        self.watchers: dict[int, Watcher] = {}
        self.prefixes: dict[int, str] = {}
        self.issued = 0
        self._verdicts: dict[CommitName, AcceptedVerdict | RejectedVerdict] = {}

    # ------------------------------------------------------------ what the app does

    def write(
        self,
        *writes: CommitWrite,
        reads: Sequence[str | PlannedRead] = (),
        bases: Sequence[tuple[str, CachedEntity]] = (),
    ) -> CommitName:
        """Applies a commit; a read given by its id is of the whole entity, as the view shows it now."""
        self.issued += 1
        name = CommitName(SESSION, Local(self.issued))
        declared = tuple(self.reading(one) if isinstance(one, str) else one for one in reads)
        beneath = tuple((EntityId(id_), held) for id_, held in bases)
        plan = CommitPlan(MAIN, writes, declared, bases=beneath)
        refusal = self.nursery.add(named(plan, name, nonce=bytes(16)), beneath)
        assert refusal is None, refusal
        return name

    def reading(self, id_: str, path: str = "") -> PlannedRead:
        shown = self.nursery.view(MAIN).shown(EntityId(id_))
        layers = () if shown is None else shown.layers
        basis = self.nursery.to if shown is None else shown.basis
        return PlannedRead(basis, EntityId(id_), path=path, through=CommitNames.of(layer.name for layer in layers))

    def watch(self, prefix: str) -> Watcher:
        """Watches all under a prefix; it is filled by the next frame."""
        number = len(self.watchers) + 1
        self.watchers[number] = Watcher(number, Query(roots=(Root(f"{prefix}*"),)), space=SPACE, limits=DEFAULTS)
        self.prefixes[number] = prefix
        self.nursery.watch(number, Membership(MAIN, prefixes=[prefix]), self.watchers[number])
        return self.watchers[number]

    def value(self, id_: str) -> Any:
        return self.nursery.value(MAIN, EntityId(id_))

    def shown(self, id_: str) -> Shown | None:
        return self.nursery.view(MAIN).shown(EntityId(id_))

    def pending(self) -> list[CommitName]:
        return [one.name for one in self.nursery.pending()]

    def hidden(self) -> list[CommitName]:
        """The commits that are flagged: they do not apply now."""
        return [one.name for one in self.nursery.pending() if not one.is_shown]

    # ------------------------------------------------------------ what the server does

    def other(self, *operations: Operation) -> Version:
        """Somebody else writes, blindly."""
        blind = [msgspec.structs.replace(one, blind=True) for one in operations]
        return self.space.must(*blind, author=BOB, session="other")

    def decide(self, *names: CommitName) -> None:
        """The server decides these commits, or all that are pending; a frame will tell."""
        for pending in self.nursery.pending():
            if (not names or pending.name in names) and pending.name not in self._verdicts:
                identity = LocalIdentity(ALICE, pending.name.session, pending.name.local)
                request = digest_request(pending.nonce, pending.content)
                outcome = self.space.decide([prepare(identity, request, read_content(pending.content))])[0]
                if isinstance(outcome, RefusedCommit):
                    self._verdicts[pending.name] = problems.rejected(pending.name.local, outcome.error)
                else:
                    assert isinstance(outcome, Decided)
                    self._verdicts[pending.name] = _accepted(outcome)

    def refuse(self, name: CommitName, code: str = "forbidden") -> None:
        """The server refuses a commit, whatever it says; a frame will tell."""
        self._verdicts[name] = RejectedVerdict(local=name.local, code=code, message="no")

    def frame(self, **instead: Any) -> Sync:
        """From where the nursery is to where the space is, for everything that is watched."""
        nursery, space = self.nursery, self.space
        verdicts, self._verdicts = tuple(self._verdicts.values()), {}
        unfilled = [number for number in self.watchers if not nursery.is_filled(number)]
        entered = [one for number in self.watchers for one in self._entered(number)]
        left = [one for number in self.watchers for one in self._left(number)]
        frame = Sync(
            from_=nursery.to, to=space.version, hash=space.hash, verdicts=verdicts, commits=self._commits(),
            entered=tuple(entered), left=tuple(left), filled=tuple(unfilled),
        )  # fmt: skip
        return msgspec.structs.replace(frame, **instead)

    def deliver(self, **instead: Any) -> Integrated:
        """The next frame comes."""
        return self.integrate(self.frame(**instead))

    def integrate(self, frame: Sync) -> Integrated:
        return self.nursery.integrate(frame, session=SESSION, issued=self.issued)

    def tell(self, *names: CommitName) -> Integrated:
        """Decides and delivers."""
        self.decide(*names)
        return self.deliver()

    def held(self, id_: str, *, as_of: int | None = None) -> CachedEntity:
        """What the server says of an entity now."""
        state = self.space.entity(MAIN, EntityId(id_))
        assert not isinstance(state.value, Missing)
        return CachedEntity(state.value, state.version, state.hash, None if as_of is None else Version(as_of))

    def _values(self, number: int) -> dict[EntityId, Any]:
        ids = {id_ for _, id_ in self.space.states if id_.startswith(self.prefixes[number])}
        states = {id_: self.space.entity(MAIN, id_) for id_ in sorted(ids)}
        return {id_: state for id_, state in states.items() if not isinstance(state.value, Missing)}

    def _entered(self, number: int) -> list[Entered]:
        return [
            Entered(watch=number, branch=MAIN, id=id_, version=one.version, hash=one.hash, body=encode(one.value))
            for id_, one in self._values(number).items()
            if id_ not in self.nursery.members(number)
        ]

    def _left(self, number: int) -> list[Left]:
        gone = set(self.nursery.members(number)) - self._values(number).keys()
        return [Left(watch=number, branch=MAIN, id=id_) for id_ in sorted(gone)]

    def _commits(self) -> tuple[CommitItem, ...]:
        """The facts of others on what is held."""
        told = []
        held = {id_ for number in self.watchers for id_ in self.nursery.members(number)}
        for record, facts in self.space.history[self.nursery.to :]:
            seen = [fact for fact in facts if fact.id in held]
            if record.author != ALICE and seen:
                told.append(records.commit_item(record, seen))
        return tuple(told)


def _accepted(outcome: Decided) -> AcceptedVerdict:
    record, facts = outcome.commit, outcome.facts
    assert isinstance(record.identity, LocalIdentity)
    return AcceptedVerdict(
        local=record.identity.local,
        version=record.version,
        time=record.time,
        hash=record.hash,
        request=record.request,
        hashes=tuple(fact.hash for fact in facts),
        salts=tuple(fact.salt for fact in facts),
    )


def hand(prefix: str = "urn:", *operations: Operation) -> Hand:
    """One that watches a prefix in which these operations were done, filled; the empty prefix watches nothing."""
    made = Hand()
    if operations:
        made.other(*operations)
    if prefix:
        made.watch(prefix)
    made.deliver()
    return made
