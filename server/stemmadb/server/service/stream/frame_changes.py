"""The changes of watched entities in a frame: facts if the client has their parent, else whole values (SYNC-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.sync import Entered
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.service.stream.frames import Frame
from stemmadb.server.service.watch.watch_groups import Delta

Key: TypeAlias = tuple[BranchName, EntityId]
HasBytes: TypeAlias = Callable[[LocalIdentity], bool]
"""Whether the client has the bytes of an own commit, so that its facts need not be sent (SYNC-2)."""


class FrameWatch(Protocol):
    """A watch of a session, or a broadcast group of equal ones."""

    @property
    def branch(self) -> BranchName: ...

    def publish(self, frame: Frame, delta: Delta) -> Delta:
        """Puts what left into the frame; returns what is to be sent as facts or values."""
        ...

    def entered(self, entity: EntityValue, *, with_body: bool) -> Entered: ...


def add_changes(
    frame: Frame, changes: Iterable[tuple[FrameWatch, Delta]], batches: Sequence[Batch] | None, has_bytes: HasBytes
) -> None:
    """Puts the changes of all watches into the frame; each entity's body goes along once.

    `batches` begin where the frame does; without them, values take the place of facts.
    """
    published = [(watch, watch.publish(frame, delta)) for watch, delta in changes]
    updated = {(watch.branch, id_) for watch, delta in published for id_ in delta.updated}
    whole: set[Key] = set()
    for watch, delta in published:
        for id_, entity in delta.entered.items():
            key = (watch.branch, id_)
            frame.entered.append(watch.entered(entity, with_body=key not in whole and key not in updated))
            whole.add(key)
    if not updated:
        return
    if batches is None:
        _add_values(frame, published)
    else:
        _add_facts(frame, updated, batches, has_bytes)


def _add_facts(frame: Frame, updated: set[Key], batches: Iterable[Batch], has_bytes: HasBytes) -> None:
    decided = {one.version for one in frame.verdicts if isinstance(one, AcceptedVerdict)}
    for batch in batches:
        if batch.to > frame.to:
            return
        for event in batch.commits:
            facts = [fact for fact in event.facts if (fact.branch, fact.id) in updated]
            if not facts:
                continue
            identity = event.commit.identity
            is_decided = event.commit.version in decided  # the verdict brings the salts
            if is_decided and isinstance(identity, LocalIdentity) and has_bytes(identity):
                frame.is_own = True
            else:
                frame.commits.append(records.commit_item(event.commit, facts))


def _add_values(frame: Frame, published: Iterable[tuple[FrameWatch, Delta]]) -> None:
    """Catch-up brings the value now in the place of the facts between."""
    whole: set[Key] = set()
    for watch, delta in published:
        for id_, entity in delta.updated.items():
            key = (watch.branch, id_)
            frame.entered.append(watch.entered(entity, with_body=key not in whole))
            whole.add(key)
