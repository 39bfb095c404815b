"""Own commits that are not decided, and those that were refused, for apps that block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stemmadb.client import status
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.session import refused as async_refused
from stemmadb.client.sync.patience import within
from stemmadb.client.sync.portal import Portal
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

if TYPE_CHECKING:
    from stemmadb.client.sync.transactions import Transaction


class Refused:
    """A commit that was not accepted. It keeps what it wanted to write, so that nothing is lost.

    for refused in space.rejected():
        print(refused.message, refused.stale, refused.operations)
        again = refused.retry()             # the same on top of the current values
        again.confirmed()
    """

    def __init__(self, refused: async_refused.Refused, portal: Portal) -> None:
        self._refused = refused
        self._portal = portal

    def retry(self, operations: Sequence[Mapping[str, Any]] | None = None) -> Transaction:
        """Submits it again on top of the current values, as it was or with other `operations`, and drops this one.

        Gives the new transaction; what it read is read anew. Raises, and keeps this one, if an operation does not
        apply to the current values.
        """
        from stemmadb.client.sync.transactions import Transaction  # noqa: PLC0415  # each knows the other

        return Transaction(self._portal.call(self._refused.retry, operations), self._portal)

    def drop(self) -> None:
        """Deletes it for good."""
        self._portal.touch(self._refused.drop)

    @property
    def name(self) -> CommitName:
        """The session it was made in, and its number there."""
        return self._refused.name

    @property
    def code(self) -> str:
        """Why, as one of the error codes: `conflict`, `dependency`, `forbidden`, ..."""
        return self._refused.code

    @property
    def message(self) -> str:
        """Why, in a sentence."""
        return self._refused.message

    @property
    def error(self) -> StemmaError:
        """The same as the error that `confirmed` raises."""
        return self._refused.error

    @property
    def stale(self) -> tuple[StaleRead, ...]:
        """For a conflict: each read that no longer held, with the commit that won and its author."""
        return self._refused.stale

    @property
    def rejected_because_of(self) -> CommitName | None:
        """The commit it was built on, if it was that one that was refused."""
        return self._refused.rejected_because_of

    @property
    def branch(self) -> BranchName:
        """The branch it was made on."""
        return self._refused.branch

    @property
    def time(self) -> datetime:
        """When it was rejected."""
        return self._refused.time

    @property
    def decided(self) -> Version:
        """The version at which it was decided."""
        return self._refused.decided

    @property
    def current(self) -> dict[EntityId, Value]:
        """The values, at `decided`, of what was read and had changed, as far as the server sent them."""
        return self._refused.current

    @property
    def operations(self) -> list[dict[str, Value]]:
        """What it wanted to do; edit a copy and give it to `retry`."""
        return self._refused.operations

    @property
    def note(self) -> Value:
        """The note of its transaction."""
        return self._refused.note

    def __repr__(self) -> str:
        return repr(self._refused)


class PendingCommit:
    """An own commit that is not decided yet.

    for pending in space.pending():
        print(pending.ids, pending.age_seconds)
    """

    def __init__(self, pending: status.PendingCommit, portal: Portal) -> None:
        self._pending = pending
        self._portal = portal
        self.age_seconds = pending.age_seconds
        """How long it has waited."""

    @property
    def branch(self) -> BranchName:
        """The branch it was made on."""
        return self._pending.branch

    @property
    def ids(self) -> tuple[str, ...]:
        """The entities it writes."""
        return self._pending.ids

    @property
    def is_journaled(self) -> bool:
        """Whether the journal has it."""
        return self._pending.is_journaled

    @property
    def applies(self) -> bool:
        """False while it is left out of the view: it does not apply to what has come from others."""
        return self._pending.applies

    @property
    def note(self) -> Value:
        """The note of its transaction."""
        return self._pending.note

    def confirmed(self, *, timeout: float | None = None) -> Version:
        """Its version, once it is durable on the server; raises what it was refused with, or `TimedOut`."""
        return self._portal.call(lambda: within(timeout, self._pending.confirmed()))

    def __repr__(self) -> str:
        return repr(self._pending)
