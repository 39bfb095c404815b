"""Admission of a batch of 64 commits of two operations each, with warm heads."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable
from typing import Any

from stemmadb.protocol.model.access.access_roles import OWNER, Rights
from stemmadb.protocol.model.commit import admission
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.proposal import Proposal, prepare
from stemmadb.protocol.model.commit.request import Content, Operation, Read, digest_request
from stemmadb.protocol.model.log import commit_record
from stemmadb.protocol.model.log.commit_record import Identity, LocalIdentity
from stemmadb.protocol.model.log.state import BranchState, EntityState, KnownCommit, empty_state
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Hash, Local, TimeMs, Version

BATCH = 64
SPACE = Did("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
AUTHOR = Did("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp")
DOCUMENT = {"title": "write the spec", "done": False, "count": 1, "tags": ["a", "b"], "by": {"name": "alice"}}


class WarmView:
    """Heads in a dict, as a writer's cache holds them."""

    space = SPACE
    time = TimeMs(0)
    destroyed = restructured = Version(0)

    def __init__(self) -> None:
        self.version = Version(0)
        self.hash: Hash = commit_record.genesis(SPACE)
        self.heads: dict[tuple[BranchName, EntityId], EntityState] = {}
        self.highest: dict[bytes, Local] = {}
        self._main = BranchState(name=MAIN)

    def branch(self, name: str) -> BranchState | None:
        return self._main if name == MAIN else None

    def tag(self, name: str) -> Version | None:  # noqa: ARG002
        return None

    def revoked(self, name: Hash) -> bool:  # noqa: ARG002
        return False

    def rights(self, principal: Did) -> Rights:  # noqa: ARG002
        return OWNER

    def entity(self, branch: BranchName, id_: EntityId) -> EntityState:
        return self.heads.get((branch, id_)) or empty_state(id_)

    def at_hand(self) -> dict[tuple[BranchName, EntityId], EntityState]:
        return self.heads

    def changed_under(self, branch: BranchName, prefix: str, after: Version) -> Iterable[EntityState]:  # noqa: ARG002
        return ()

    def accepted(self, identity: Identity) -> KnownCommit | None:  # noqa: ARG002
        return None

    def highest_local(self, principal: Did, session: bytes) -> Local:  # noqa: ARG002
        return self.highest.get(session, Local(0))

    def keep(self, outcomes: list[admission.Outcome]) -> None:
        for outcome in outcomes:
            assert isinstance(outcome, Accepted), outcome
            record = outcome.commit
            self.version, self.hash = record.version, record.hash
            self.heads.update(outcome.written)
            assert isinstance(record.identity, LocalIdentity)
            self.highest[record.identity.session] = record.identity.local


def content(number: int, version: Version) -> Content:
    """A set of one entity and a patch of another, both declared."""
    one, other = EntityId(f"urn:todo:{number}"), EntityId(f"urn:note:{number}")
    change: list[dict[str, Any]] = [
        {"op": "replace", "path": "/done", "value": True},
        {"op": "replace", "path": "/by/name", "value": "bob"},
    ]
    return Content(
        operations=(
            Operation(op="set", id=one, body=encode(DOCUMENT)),
            Operation(op="patch", id=other, body=encode(change)),
        ),
        reads=(
            Read(id=one, version=version),
            Read(id=other, version=version, path="/done"),
            Read(id=other, version=version, path="/by/name"),
        ),
    )


def proposals(view: WarmView, round_: int) -> list[Proposal]:
    made = []
    for number in range(BATCH):
        body = content(number, view.version)
        identity = LocalIdentity(AUTHOR, number.to_bytes(16, "big"), Local(round_))
        made.append(prepare(identity, digest_request(bytes(16), encode(body)), body))
    return made


def warm() -> WarmView:
    view = WarmView()
    for name in ("todo", "note"):
        operations = tuple(
            Operation(op="set", id=EntityId(f"urn:{name}:{n}"), body=encode(DOCUMENT), blind=True)
            for n in range(BATCH)
        )
        whole = Content(operations=operations)
        identity = LocalIdentity(AUTHOR, name.encode().ljust(16), Local(1))
        seed = prepare(identity, digest_request(bytes(16), b""), whole)
        view.keep(admission.decide([seed], view, now=TimeMs(1), salts=_salts()))
    return view


def _salts() -> Any:
    return itertools.repeat(bytes(16))


def run(quick: bool = False) -> list[dict[str, object]]:
    view = warm()
    prepare_us, decide_us = [], []
    for round_ in range(1, 30 if quick else 200):
        started = time.perf_counter()
        batch = proposals(view, round_)
        prepared = time.perf_counter()
        outcomes = admission.decide(batch, view, now=TimeMs(round_), salts=_salts())
        decided = time.perf_counter()
        view.keep(outcomes)
        del batch, outcomes  # so that freeing them is not timed with the next batch
        prepare_us.append((prepared - started) * 1e6 / BATCH)
        decide_us.append((decided - prepared) * 1e6 / BATCH)
    scenario = "admission, batch of 64 commits of two operations, warm heads"
    return [
        {"scenario": scenario, "system": "stemmadb decide (hashes included)", "p50_us": statistics.median(decide_us)},
        {"scenario": scenario, "system": "stemmadb encode + prepare", "p50_us": statistics.median(prepare_us)},
    ]
