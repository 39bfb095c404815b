"""What a frame tells of watched entities: facts where the client has their parent, else whole values (SYNC-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from stemmadb.protocol.model.commit import LocalIdentity
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import BranchName, EntityId
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.commit import Accepted
from stemmadb.server.service.batches import Batch
from stemmadb.server.service.frames import Frame
from stemmadb.server.service.groups import Delta
from stemmadb.server.service.told import Told
from stemmadb.server.service.watches import Watch

Key: TypeAlias = tuple[BranchName, EntityId]
HasBytes: TypeAlias = Callable[[LocalIdentity], bool]
"""Whether the client has the bytes of an own commit, so that its facts need not be sent (SYNC-2)."""


def tell(
    frame: Frame, changes: Iterable[tuple[Watch, Delta]], batches: Sequence[Batch] | None, has_bytes: HasBytes
) -> None:
    """Puts the changes of all watches into the frame; each entity's body goes along once.

    `batches` begin where the frame does; without them, values take the place of facts.
    """
    told = [(watch, watch.tell(frame, delta)) for watch, delta in changes]
    updated = {(watch.branch, id_) for watch, delta in told for id_ in delta.updated}
    whole: set[Key] = set()
    for watch, delta in told:
        for id_, entity in delta.entered.items():
            key = (watch.branch, id_)
            frame.entered.append(watch.entered(entity, with_body=key not in whole and key not in updated))
            whole.add(key)
    if not updated:
        return
    if batches is None:
        _tell_values(frame, told)
    else:
        _tell_facts(frame, updated, batches, has_bytes)


def _tell_facts(frame: Frame, updated: set[Key], batches: Iterable[Batch], has_bytes: HasBytes) -> None:
    decided = {one.version for one in frame.verdicts if isinstance(one, Accepted)}
    for batch in batches:
        if batch.to > frame.to:
            return
        for told, facts in _concerned(batch, updated):
            identity = told.commit.identity
            is_decided = told.commit.version in decided  # the verdict brings the salts
            if is_decided and isinstance(identity, LocalIdentity) and has_bytes(identity):
                frame.is_own = True
            else:
                frame.commits.append(records.commit_item(told.commit, facts))


def _concerned(batch: Batch, updated: set[Key]) -> Iterator[tuple[Told, list[Fact]]]:
    for told in batch.commits:
        facts = [fact for fact in told.facts if (fact.branch, fact.id) in updated]
        if facts:
            yield told, facts


def _tell_values(frame: Frame, told: Iterable[tuple[Watch, Delta]]) -> None:
    """Catch-up brings the value now in the place of the facts between."""
    whole: set[Key] = set()
    for watch, delta in told:
        for id_, entity in delta.updated.items():
            key = (watch.branch, id_)
            frame.entered.append(watch.entered(entity, with_body=key not in whole))
            whole.add(key)
