"""Schedules decided one by one, to be sent to a real space again; a seed reproduces one exactly."""

from __future__ import annotations

from engines import ACCESS
from schedules import Schedule, verdict_of
from space import SPACE, set_, structural
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.admission import Accepted, Outcome, RefusedCommit
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import BranchCreate
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.server.storage.port import LogReader


class Script(Schedule):
    """A schedule that was decided one by one by the reference, and compared with the oracle, to be sent again."""

    def __init__(self, seed: int, steps: int = 14) -> None:
        super().__init__(seed)
        self.lines: list[tuple[Proposal, Outcome]] = []
        access = self.space.propose(set_(SPACE, ACCESS, blind=True), author=SPACE, session="first")
        self.oracle.decide(access)
        self.lines.append((access, self.space.decide([access])[0]))
        self.run(steps)

    def batch(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            proposal = self.proposal()
            if proposal is not None:
                (outcome,) = self.space.decide([proposal])
                assert verdict_of(outcome) == self.oracle.decide(proposal)
                self.lines.append((proposal, outcome))

    def create_branch(self) -> None:
        name = f"b{len(self.space.branches)}"
        parent = self.random.choice(sorted(self.space.branches))
        fork = self.random.randint(0, self.space.version)
        details = BranchCreate(name=BranchName(name), parent=BranchName(parent), fork=Version(fork))
        proposal = structural(details, f"op{self.space.version}", author=SPACE)
        self.lines.append((proposal, self.space.decide([proposal])[0]))
        self.oracle.create_branch(name, parent, fork)


def same(actual: Outcome, expected: Outcome) -> bool:
    """Salts may differ, and so hashes; a refusal names the same stale reads."""
    if isinstance(actual, Accepted) and isinstance(expected, Accepted):
        return actual.commit.version == expected.commit.version
    if isinstance(actual, RefusedCommit) and isinstance(expected, RefusedCommit):
        return actual.at == expected.at and told(actual.error) == told(expected.error)
    return actual == expected


def told(error: StemmaError) -> object:
    """Of a stale prefix any entity may be named that overlaps it."""
    facts = dict(error.facts)
    facts["stale"] = [one if one.prefix is None else (one.prefix, one.read) for one in facts.get("stale", ())]
    return error.code, facts


def verify(reader: LogReader) -> Version:
    *_, last = chain.verify(SPACE, reader.history())
    return last.version
