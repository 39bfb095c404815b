"""Random schedules of commits against the naive oracle; a seed reproduces one exactly."""

from __future__ import annotations

import random
from typing import Any

from oracle import Oracle
from space import ALICE, BOB, MemorySpace, delete_, patch_, prefix_, read_, session_of, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import BranchCreate
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version

IDS = ["urn:a:1", "urn:a:2", "urn:b:1"]
PATHS = ["", "/p", "/p/q", "/r", "/list", "/list/0"]
SESSIONS = [(ALICE, "s1"), (ALICE, "s2"), (BOB, "s1")]


class Schedule:
    """Makes up proposals from a seed, some of them stale, repeated, late or out of nowhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.space = MemorySpace()
        self.oracle = Oracle()
        self.sent: list[Proposal] = []
        self.locals = dict.fromkeys(SESSIONS, 0)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.random.random() < 0.05:
                self.create_branch()
            else:
                self.batch()
        self.compare_values()
        list(chain.verify(self.space.space, self.space.history))

    def create_branch(self) -> None:
        name = f"b{len(self.space.branches)}"
        parent = self.random.choice(sorted(self.space.branches))
        fork = self.random.randint(0, self.space.version)
        self.space.structure(BranchCreate(name=BranchName(name), parent=BranchName(parent), fork=Version(fork)))
        self.oracle.create_branch(name, parent, fork)

    def batch(self) -> None:
        batch = [one for _ in range(self.random.randint(1, 4)) if (one := self.proposal()) is not None]
        outcomes = self.space.decide(batch)
        assert len(outcomes) == len(batch)
        for proposal, outcome in zip(batch, outcomes, strict=True):
            assert verdict_of(outcome) == self.oracle.decide(proposal), proposal
            if isinstance(outcome, Accepted):
                assert outcome.commit.version == self.oracle.version

    def proposal(self) -> Proposal | None:
        if self.sent and self.random.random() < 0.15:
            return self.random.choice(self.sent)
        author, session = self.random.choice(SESSIONS)
        local = self.locals[author, session] + self.random.choice([1, 1, 1, 2, 0, -1])
        if local < 1:
            return None
        self.locals[author, session] = max(local, self.locals[author, session])
        operations = [self.operation() for _ in range(self.random.randint(1, 3))]
        reads = [self.read(local, session) for _ in range(self.random.randint(0, 3))]
        branch = self.random.choice([*sorted(self.space.branches), "main", "main"])
        try:
            made = self.space.propose(
                *operations, reads=reads, branch=branch, author=author, session=session, local=local
            )
        except errors.Undeclared:
            return None
        self.sent.append(made)
        return made

    def operation(self) -> Operation:
        id_ = self.random.choice(IDS)
        blind = self.random.random() < 0.7
        kind = self.random.choice(["set", "set", "patch", "patch", "patch", "delete"])
        if kind == "set":
            return set_(id_, {"p": {"q": 0}, "r": 0, "list": [1, 2]}, blind=blind)
        if kind == "delete":
            return delete_(id_, blind=blind)
        return patch_(id_, self.patch_operation(), blind=blind)

    def patch_operation(self) -> dict[str, Any]:
        number = self.random.randint(0, 99)
        return self.random.choice(
            [
                {"op": "replace", "path": "/p/q", "value": number},
                {"op": "replace", "path": "/p", "value": {"q": number}},
                {"op": "increment", "path": "/r", "by": 1},
                {"op": "add", "path": "/list/0", "value": number},
                {"op": "remove", "path": "/list/1"},
                {"op": "test", "path": "/r", "value": 0},
                {"op": "replace", "path": "/list/0", "value": number},
            ]
        )

    def read(self, local: int, session: str) -> Read:
        version = max(0, self.space.version - self.random.choice([0, 0, 0, 1, 2, 5, -1]))
        through: list[Any] = [n for n in range(1, local) if self.random.random() < 0.15]
        if self.random.random() < 0.1:
            through.append((session_of(session), self.random.randint(1, 5)))
        if self.random.random() < 0.15:
            return prefix_(self.random.choice(["urn:a:", "urn:", ""]), version, through=through)
        branch = self.random.choice([*self.space.branches, None, None, None])
        return read_(self.random.choice(IDS), version, self.random.choice(PATHS), branch=branch, through=through)

    def compare_values(self) -> None:
        for branch in self.space.branches:
            expected = self.oracle.state(branch)
            for id_ in IDS:
                state = self.space.entity(BranchName(branch), EntityId(id_))
                actual = None if isinstance(state.value, Missing) else state.value
                assert actual == expected.get(id_)


def verdict_of(outcome: object) -> str:
    if isinstance(outcome, RefusedCommit):
        return outcome.error.code
    return "accepted" if isinstance(outcome, Accepted) else "repeated"
