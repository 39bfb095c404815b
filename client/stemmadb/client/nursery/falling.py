"""Refusals, and what falls with them: a commit that was read through a refused one can never be accepted."""

from __future__ import annotations

from collections.abc import Iterable

from stemmadb.client.nursery.held import CommitName
from stemmadb.client.nursery.outcomes import Refusal
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.nursery.stack import Stack
from stemmadb.protocol.errors import Dependency, StemmaError
from stemmadb.protocol.model.ids import EMPTY_SPACE, Version
from stemmadb.protocol.wire.messages.commit import Rejected


def refused(pending: Pending, verdict: Rejected, decided: Version) -> Refusal:
    """What the server said."""
    return Refusal(
        pending,
        code=verdict.code,
        message=verdict.message,
        details=verdict.details,
        stale=verdict.stale,
        current=verdict.current,
        decided=decided,
    )


def refused_here(pending: Pending, error: StemmaError, decided: Version = EMPTY_SPACE) -> Refusal:
    """What was found on this side."""
    return Refusal(pending, code=error.code, message=error.message, details=error.facts, decided=decided)


def fallen(pending: Pending, because: CommitName) -> Refusal:
    """It was built on one that was refused (COMMIT-4)."""
    error = Dependency(local=because.local)
    return refused_here(pending, error)._replace(because=because)


def cascade(refusals: Iterable[Refusal], stack: Stack) -> tuple[Refusal, ...]:
    """The refused commits and all that depend on them, those before those that fell with them (NURSERY-3)."""
    found = {one.pending.name: one for one in refusals}
    todo = list(found)
    for name in todo:
        root = found[name].because or name
        for above in stack.dependents(name):
            if above not in found:
                pending = stack.find(above)
                assert pending is not None, "dependents are pending"
                found[above] = fallen(pending, root)
                todo.append(above)
    return tuple(found.values())
