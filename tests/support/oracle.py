"""The naive oracle of admission: the rules read aloud over the whole log, with no cache and no shortcut.

It knows nothing of heads, recent changes or drafts. It is slow on purpose: every question walks every fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stemmadb.protocol.errors import PatchFailed
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import Read
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import Local

ABSENT = object()


@dataclass
class Entry:
    """An accepted commit: who, where, and what it wrote."""

    version: int
    identity: LocalIdentity
    request: bytes
    branch: str
    writes: list[tuple[str, str, Any]]  # (kind, id, payload)


@dataclass
class Oracle:
    """Answers `accepted`, `repeated` or a rejection code for one proposal after the other."""

    log: list[Entry] = field(default_factory=list)
    forks: dict[str, tuple[str, int] | None] = field(default_factory=lambda: {"main": None})
    version: int = 0

    def create_branch(self, name: str, parent: str, fork: int) -> None:
        self.version += 1
        self.forks[name] = (parent, fork)

    def decide(self, proposal: Proposal) -> str:
        identity, branch = proposal.identity, proposal.branch
        assert isinstance(identity, LocalIdentity)
        assert branch is not None
        mine = [
            e
            for e in self.log
            if (e.identity.principal, e.identity.session) == (identity.principal, identity.session)
        ]
        for entry in mine:
            if entry.identity.local == identity.local:
                return "repeated" if entry.request == proposal.request else "identity_clash"
        if any(entry.identity.local > identity.local for entry in mine):
            return "overtaken"
        if (problem := self._branch_problem(branch)) is not None:
            return problem
        for read in proposal.reads:
            if (verdict := self._first_problem(read, proposal)) is not None:
                return verdict
        if any(self._is_stale(read, proposal) for read in proposal.reads):
            return "conflict"
        return self._write(proposal, identity, branch)

    def _branch_problem(self, branch: str) -> str | None:
        return None if branch in self.forks else "unknown_branch"

    def _first_problem(self, read: Read, proposal: Proposal) -> str | None:
        if read.version > self.version:
            return "future_version"
        for name in read.locals:
            if self._accepted_version(name, proposal) is None:
                return "dependency"
        return "unknown_branch" if (read.branch or proposal.branch) not in self.forks else None

    def _accepted_version(self, name: Any, proposal: Proposal) -> int | None:
        identity = proposal.identity
        assert isinstance(identity, LocalIdentity)
        session, local = (identity.session, name) if isinstance(name, int) else name
        for entry in self.log:
            if entry.identity == LocalIdentity(identity.principal, session, Local(local)):
                return entry.version
        return None

    def _is_stale(self, read: Read, proposal: Proposal) -> bool:
        own = {self._accepted_version(name, proposal) for name in read.locals}
        branch = read.branch or proposal.branch
        assert branch is not None
        for entry in self._visible(branch):
            if entry.version <= read.version or entry.version in own:
                continue
            for kind, id_, payload in entry.writes:
                if read.prefix is not None and id_.startswith(read.prefix):
                    return True
                if id_ == read.id and (kind != "patch" or _meets(payload, read.path)):
                    return True
        return False

    def _visible(self, branch: str) -> list[Entry]:
        """The commits a branch sees: its own, and its parent's up to the fork."""
        own = [entry for entry in self.log if entry.branch == branch]
        fork = self.forks[branch]
        if fork is None:
            return own
        return [entry for entry in self._visible(fork[0]) if entry.version <= fork[1]] + own

    def state(self, branch: str) -> dict[str, Any]:
        """Every entity's value on a branch, folded from the beginning."""
        values: dict[str, Any] = {}
        for entry in self._visible(branch):
            for kind, id_, payload in entry.writes:
                _fold(values, kind, id_, payload)
        return values

    def _write(self, proposal: Proposal, identity: LocalIdentity, branch: str) -> str:
        values = self.state(branch)
        writes = [(step.kind, step.id, step.payload) for step in proposal.steps]
        for kind, id_, payload in writes:
            if kind in ("patch", "delete") and id_ not in values:
                return "not_found"
            try:
                _fold(values, kind, id_, payload)
            except PatchFailed:
                return "patch_failed"
        self.version += 1
        self.log.append(Entry(self.version, identity, proposal.request, branch, list(writes)))
        return "accepted"


def _fold(values: dict[str, Any], kind: str, id_: str, payload: Any) -> None:
    if kind == "set":
        values[id_] = payload
    elif kind == "patch":
        values[id_] = patch.apply(values[id_], payload)
    else:
        del values[id_]


def _meets(operations: Any, path: str) -> bool:
    """Whether a patch writes a path that contains, or lies within, the path that was read."""
    read = path.split("/")
    for written in patch.footprint(operations).writes:
        tokens = written.split("/")
        shorter = min(len(tokens), len(read))
        if tokens[:shorter] == read[:shorter]:
            return True
    return False
