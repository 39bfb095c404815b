"""Refusals and their cascade: a commit that was read through a refused one can never be accepted."""

from __future__ import annotations

from collections.abc import Iterable

from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.nursery.layers import PendingLayers
from stemmadb.client.nursery.outcomes import CommitRefusal
from stemmadb.client.nursery.pending import Pending
from stemmadb.protocol.errors import Dependency, StemmaError
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Version
from stemmadb.protocol.wire.messages.commit import RejectedVerdict


def refused_by_server(pending: Pending, verdict: RejectedVerdict, decided: Version) -> CommitRefusal:
    """A refusal by the server's verdict."""
    return CommitRefusal(
        pending,
        code=verdict.code,
        message=verdict.message,
        details=verdict.details,
        stale=verdict.stale,
        current=verdict.current,
        decided=decided,
    )


def refused_locally(pending: Pending, error: StemmaError, decided: Version = EMPTY_SPACE) -> CommitRefusal:
    """A refusal decided by the client itself."""
    return CommitRefusal(pending, code=error.code, message=error.message, details=error.facts, decided=decided)


def rejected_because_of(pending: Pending, because: CommitName) -> CommitRefusal:
    """The refusal of a commit that was built on a refused one (COMMIT-4)."""
    error = Dependency(local=because.local)
    return refused_locally(pending, error)._replace(because=because)


def with_dependents(refusals: Iterable[CommitRefusal], layers: PendingLayers) -> tuple[CommitRefusal, ...]:
    """The refused commits and all their dependents, each after the commit it depends on (NURSERY-3)."""
    found = {one.pending.name: one for one in refusals}
    todo = list(found)
    for name in todo:
        root = found[name].because or name
        for above in layers.dependents(name, beside=found):
            pending = layers.find(above)
            assert pending is not None, "dependents are pending"
            found[above] = rejected_because_of(pending, root)
            todo.append(above)
    return tuple(found.values())
