"""What is durable in a run: a history for each time the server was restored, folded at every append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import graphs
from simulation.history import History
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.testing import World
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity
from stemmadb.protocol.model.query.query import Root
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value, equal


class Logged(NamedTuple):
    """A commit of an app in the server's log: the mark is in its note."""

    principal: Did
    name: CommitName
    mark: int
    version: Version


class States:
    """The histories of a space, the last of which goes on."""

    def __init__(self, world: World, space: Did) -> None:
        self.space = space
        self._world = world
        self.histories = [History(space)]
        self.catch_up()
        world.on_append(self.catch_up)

    @property
    def epoch(self) -> int:
        """How often the server was restored: each time another history begins."""
        return len(self.histories) - 1

    @property
    def now(self) -> History:
        self.catch_up()
        return self.histories[-1]

    def catch_up(self) -> None:
        """Takes what was appended since."""
        history = self.histories[-1]
        if self._world.truth.version(self.space) == history.tip:
            return
        with self._world.truth._storage.open(self.space).reader() as reader:
            for commit, facts in reader.history(history.tip):
                history.take(commit, facts)

    def restored(self, version: Version) -> None:
        """The server went back to this version."""
        self.histories.append(self.histories[-1].until(version))

    def at(self, branch: str, version: Version, epoch: int | None = None) -> dict[EntityId, Value] | None:
        """The entities on a branch; None if that history never came so far."""
        history = self.now if epoch is None or epoch == self.epoch else self.histories[epoch]
        state = history.at(branch, version)
        return None if state is None else {id_: value for id_, value in state.items() if id_ != EntityId(self.space)}

    def head(self, branch: str) -> dict[EntityId, Value]:
        state = self.at(branch, self.now.tip)
        assert state is not None, f"{branch} is there"
        return state

    def log(self, epoch: int | None = None) -> list[Logged]:
        """The commits of apps in a history, oldest first."""
        history = self.now if epoch is None else self.histories[epoch]
        return [one for one in map(_logged, history.commits) if one is not None]

    def logs(self) -> set[Logged]:
        """Those of all histories."""
        return {one for epoch in range(self.epoch + 1) for one in self.log(epoch)}


def _logged(commit: Commit) -> Logged | None:
    identity = commit.identity
    note: Any = None if commit.note is None else body.read_stored(commit.note)
    if not isinstance(identity, LocalIdentity) or not isinstance(note, dict) or "mark" not in note:
        return None
    return Logged(identity.principal, CommitName(identity.session, identity.local), note["mark"], commit.version)


def answer(state: Mapping[EntityId, Value], roots: Sequence[Root]) -> dict[EntityId, Value]:
    """The query over a state, afresh."""
    if all(root.schema is None and not root.path for root in roots):
        return {id_: value for id_, value in state.items() if covers(roots, id_)}
    values: Mapping[Any, Value] = state
    return {id_: one.value for id_, one in graphs.ask(values, *roots).entities.items()}


def covers(roots: Iterable[Root], id_: str) -> bool:
    """Whether a root names it, by itself or by its prefix."""
    names = (root.id for root in roots)
    return any(id_.startswith(name[:-1]) if name.endswith("*") else id_ == name for name in names)


def same(left: Mapping[Any, Value], right: Mapping[Any, Value]) -> bool:
    return left.keys() == right.keys() and all(equal(left[id_], right[id_]) for id_ in left)


def differences(left: Mapping[Any, Value], right: Mapping[Any, Value]) -> str:
    """What a person needs to see of two states that should be the same."""
    ids = sorted(left.keys() | right.keys())
    lines = [f"{id_}: {left.get(id_)} <> {right.get(id_)}" for id_ in ids if left.get(id_) != right.get(id_)]
    return "; ".join(lines)
