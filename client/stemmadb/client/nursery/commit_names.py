"""Names of own commits, with consecutive locals of a session as one run: what a read was made through (COMMIT-4).

Example: 1,000 pending commits wrote one entity. A read of it names all of them, which is one run:

    CommitNames((NameRun(session, 1, 1_000),))
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from stemmadb.client.nursery.entities import CommitName
from stemmadb.protocol.model.commit.request import PendingName
from stemmadb.protocol.model.values.ids import Local


class NameRun(NamedTuple):
    """The commits of a session from one local to another, both of them included."""

    session: bytes
    first: int
    last: int


class CommitNames:
    """Immutable, in the order in which they were given. Its cost grows with the runs, not with the names."""

    __slots__ = ("_count", "runs")

    def __init__(self, runs: tuple[NameRun, ...] = ()) -> None:
        self.runs = runs
        self._count = sum([last - first + 1 for _, first, last in runs])

    @classmethod
    def of(cls, names: Iterable[CommitName]) -> CommitNames:
        runs: list[NameRun] = []
        session, first, last = b"", 0, 0
        for name in names:
            if name.local == last + 1 and name.session == session:
                last += 1
                continue
            if first:
                runs.append(NameRun(session, first, last))
            session, first, last = name.session, name.local, name.local
        return cls((*runs, NameRun(session, first, last))) if first else cls()

    @classmethod
    def union(cls, several: Iterable[CommitNames]) -> CommitNames:
        """All of these together; one that is in several of them may be named more than once."""
        distinct = dict.fromkeys([run for one in several for run in one.runs])
        return cls(tuple(distinct)) if distinct else NO_COMMITS

    def followed_by(self, name: CommitName) -> CommitNames:
        """These and one more."""
        runs, (session, local) = self.runs, name
        if runs and runs[-1].last + 1 == local and runs[-1].session == session:
            return CommitNames((*runs[:-1], NameRun(session, runs[-1].first, local)))
        return CommitNames((*runs, NameRun(session, local, local)))

    def __iter__(self) -> Iterator[CommitName]:
        for session, first, last in self.runs:
            for local in range(first, last + 1):
                yield CommitName(session, Local(local))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: CommitName) -> bool:
        session, local = name
        return any(run.first <= local <= run.last and run.session == session for run in self.runs)

    def among(self, others: Collection[CommitName]) -> Iterator[CommitName]:
        """Those of them that are among the others; looks at each of the fewer."""
        if len(others) < self._count:
            return (name for name in others if name in self)
        return (name for name in self if name in others)

    def as_sent(self, session: bytes) -> tuple[PendingName, ...]:
        """As a commit of this session names them: its own by their locals, others with their session."""
        return tuple(chain.from_iterable([_as_sent(run, session) for run in self.runs]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommitNames) and self.runs == other.runs

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        return f"CommitNames({', '.join(f'{first}-{last}' for _, first, last in self.runs)})"


NO_COMMITS: Final = CommitNames()


def _as_sent(run: NameRun, session: bytes) -> Iterable[PendingName]:
    locals_: Iterable[Local] = range(run.first, run.last + 1)  # type: ignore[assignment]  # a Local is an int
    return locals_ if run.session == session else [(run.session, local) for local in locals_]
