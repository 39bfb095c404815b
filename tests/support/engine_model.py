"""What a space must hold, by obvious code: the log as a list, every state folded from its beginning.

Extends the oracle of admission with bodies that were erased, and with writes whose content the engine has computed
(merges, undo, survivors of an erasure): those are checked by oracles of their own and only taken over here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from oracle import Entry, Oracle
from space import ALICE
from stemmadb.protocol.errors import PatchFailed
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import Local

GONE: Final = "(gone)"
NOBODY = LocalIdentity(ALICE, b"", Local(0))


class Model(Oracle):
    """The same space as the engine's, with `floor` and `deleted` beside the log."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: dict[str, int] = {}
        self.tags: dict[str, tuple[str, int]] = {}
        self.floor = 0

    def live(self) -> list[str]:
        return [name for name in self.forks if name not in self.deleted]

    def take(self, version: int, facts: Iterable[Fact], payloads: Iterable[Any]) -> None:
        """A write of the engine's own making; its facts are taken over as they are."""
        self.version = version
        for fact, payload in zip(facts, payloads, strict=True):
            if fact.kind != "checkpoint":
                self.log.append(Entry(version, NOBODY, b"", fact.branch, [(fact.kind, fact.id, payload)]))

    def erase(self, id_: str, versions: Iterable[int]) -> None:
        gone = set(versions)
        for entry in self.log:
            if entry.version in gone:
                entry.writes = [
                    (kind, one, GONE if one == id_ and kind != "delete" else payload)
                    for kind, one, payload in entry.writes
                ]

    def at(self, branch: str, version: int) -> dict[str, Any]:
        """Every entity as a branch sees it at a version."""
        values: dict[str, Any] = {}
        for entry in self._visible(branch):
            if entry.version <= version:
                for kind, id_, payload in entry.writes:
                    _state(values, kind, id_, payload)
        return values

    def state(self, branch: str) -> dict[str, Any]:
        return self.at(branch, self.version)

    def is_kept(self, branch: str, version: int) -> bool:
        """Whether it can be read: at or above the floor, or kept by a tag."""
        seen = min(version, self.deleted.get(branch, version))
        return seen >= self.floor or (branch, version) in self.tags.values()

    def _branch_problem(self, branch: str) -> str | None:
        return "branch_deleted" if branch in self.deleted else super()._branch_problem(branch)

    def _is_stale(self, read: Any, proposal: Proposal) -> bool:
        """A fact whose body is gone overlaps everything of its entity (COMMIT-2)."""
        branch = read.branch or proposal.branch
        assert branch is not None
        own = {self._accepted_version(name, proposal) for name in read.locals}
        for entry in self._visible(branch):
            if entry.version > read.version and entry.version not in own:
                for _, id_, payload in entry.writes:
                    under = read.prefix is not None and id_.startswith(read.prefix)
                    if payload is GONE and (under or id_ == read.id):
                        return True
        return super()._is_stale(read, proposal)

    def _write(self, proposal: Proposal, identity: LocalIdentity, branch: str) -> str:
        values = self.state(branch)
        for step in proposal.steps:
            if step.kind != "set":
                if step.id not in values:
                    return "not_found"
                if values[step.id] is GONE:
                    return "erased"
            try:
                _state(values, step.kind, step.id, step.payload)
            except PatchFailed:
                return "patch_failed"
        self.version += 1
        writes = [(step.kind, step.id, step.payload) for step in proposal.steps]
        self.log.append(Entry(self.version, identity, proposal.request, branch, list(writes)))
        return "accepted"


def _state(values: dict[str, Any], kind: str, id_: str, payload: Any) -> None:
    if kind == "delete":
        values.pop(id_, None)
    elif payload is GONE:
        values[id_] = GONE
    elif kind == "set":
        values[id_] = payload
    elif values[id_] is not GONE:
        values[id_] = patch.apply(values[id_], payload)
