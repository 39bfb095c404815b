"""A rejected commit as the app sees it: why it was rejected, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from stemmadb.client.journal.port import RejectedCommit
from stemmadb.client.notes import Note, read_note
from stemmadb.client.nursery.entities import ABSENT, CachedEntity, CommitName
from stemmadb.client.nursery.outcomes import CommitRefusal
from stemmadb.client.nursery.pending import writes_of
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.protocol import errors
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.codec.msgpack_codec import read_content


class RetryPort(Protocol):
    """Where a refused commit can be submitted again, or dropped."""

    async def retry(self, refused: Refused, operations: Sequence[Mapping[str, Any]] | None) -> Any: ...

    def drop(self, names: Iterable[CommitName]) -> None: ...


class Refused:
    """A commit that was not accepted. It keeps what it wanted to write, so that nothing is lost.

    for refused in space.rejected():
        print(refused.message, refused.stale, refused.operations)
        again = await refused.retry()       # the same on top of the current values
        await again.confirmed()
    """

    def __init__(self, record: RejectedCommit, retrying: RetryPort) -> None:
        self.record = record
        self._retrying = retrying
        self._content = read_content(record.content)

    async def retry(self, operations: Sequence[Mapping[str, Any]] | None = None) -> Any:
        """Submits it again on top of the current values, as it was or with other `operations`, and drops this one.

        Gives the new transaction; what it read is read anew. Raises, and keeps this one, if an operation does not
        apply to the current values.
        """
        return await self._retrying.retry(self, operations)

    def drop(self) -> None:
        """Deletes it for good."""
        self._retrying.drop((self.name,))

    @property
    def name(self) -> CommitName:
        return self.record.name

    @property
    def code(self) -> str:
        """Why, as one of the error codes: `conflict`, `dependency`, `forbidden`, ..."""
        return self.record.code

    @property
    def message(self) -> str:
        """Why, in a sentence."""
        return self.record.message

    @property
    def error(self) -> StemmaError:
        """The same as the error that `confirmed` raises."""
        facts: dict[str, Any] = dict(self.record.details)
        if self.record.stale:
            facts["stale"] = self.record.stale
        return errors.restore(self.record.code, self.record.message, facts)

    @property
    def stale(self) -> tuple[StaleRead, ...]:
        """For a conflict: each read that no longer held, with the commit that won and its author."""
        return self.record.stale

    @property
    def rejected_because_of(self) -> CommitName | None:
        """The commit it was built on, if it was that one that was refused."""
        return self.record.because

    @property
    def branch(self) -> BranchName:
        return self._content.branch

    @property
    def time(self) -> datetime:
        """When it was rejected."""
        return datetime.fromtimestamp(self.record.time / 1_000, UTC)

    @property
    def decided(self) -> Version:
        """The version at which it was decided."""
        return self.record.decided

    @property
    def current(self) -> dict[EntityId, Value]:
        """The values, at `decided`, of what was read and had changed, as far as the server sent them."""
        return {
            one.id: body.read_stored(one.body)
            for one in self.record.current
            if one.branch == self.branch and one.body is not None
        }

    @property
    def operations(self) -> list[dict[str, Value]]:
        """What it wanted to do; edit a copy and give it to `retry`."""
        return [_operation(write) for write in self.writes()]

    @property
    def note(self) -> Note:
        return read_note(self._content.note)

    def writes(self) -> tuple[CommitWrite, ...]:
        return writes_of(self._content)

    def current_entities(self) -> dict[EntityId, CachedEntity]:
        """What the refusal told of the entities it read: a retry on top of that needs no server."""
        return {
            one.id: CachedEntity(
                ABSENT if one.body is None else body.read_stored(one.body), one.version, one.hash, self.decided
            )
            for one in self.record.current
            if one.branch == self.branch
        }

    def __repr__(self) -> str:
        return f"Refused({self.code}: {', '.join(f'{one.op} {one.id}' for one in self._content.operations)})"


def _operation(write: CommitWrite) -> dict[str, Value]:
    operation: dict[str, Value] = {"op": write.op, "id": write.id}
    if write.op != "delete":
        operation["value" if write.op == "set" else "patch"] = write.value
    if write.blind:
        operation["blind"] = True
    return operation


def rejected_commit(refusal: CommitRefusal, time: TimeMs) -> RejectedCommit:
    """A refusal as the journal stores it."""
    return RejectedCommit(
        name=refusal.pending.name,
        content=refusal.pending.content,
        code=refusal.code,
        message=refusal.message,
        time=time,
        details=_plain(refusal.details),
        stale=refusal.stale,
        current=refusal.current,
        decided=refusal.decided,
        because=refusal.because,
    )


def forget_current(refused: Refused) -> None:
    """The server has another history: what it told of the values is not true of this one (RESUME-4)."""
    refused.record = msgspec.structs.replace(refused.record, current=())


def _plain(details: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that can be kept; stale reads have a place of their own."""
    return {key: value for key, value in details.items() if key != "stale"}
