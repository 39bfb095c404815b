"""Carrying out writes beside ordinary commits: done once, and planned again if overtaken (COMMIT-11, MERGE-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from stemmadb.protocol.errors import Conflict, Forbidden, IdentityClash, LimitExceeded, MergeBusy
from stemmadb.protocol.model.access import access_roles, delegation
from stemmadb.protocol.model.access.access_roles import NO_ID, Rights
from stemmadb.protocol.model.commit import permission
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit, Repeated
from stemmadb.protocol.model.commit.proposal import Proposal, Step
from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.query.traversal import VISITS_PER_ENTITY_MAX
from stemmadb.protocol.model.values.ids import MAIN, Did, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.storage.port import LogReader

ATTEMPTS_MAX: Final = 5
"""How often a write is planned, each time on a newer read view, before it is given up as `MergeBusy`."""


class CompletedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that took a version of its own: the same answer each time its operation id is sent (COMMIT-11)."""

    version: Version
    hash: Hash
    time: TimeMs


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan does; without `version` nothing was written: it was a dry run, or there was nothing to do."""

    version: Version | None = None
    hash: Hash | None = None
    time: TimeMs | None = None


class PlannedCommit(msgspec.Struct, frozen=True):
    """What is, or would be, written to one entity; a body that was destroyed since is None."""

    id: EntityId
    kind: Literal["set", "patch", "delete"]
    body: bytes | None


R = TypeVar("R", bound=Planned)
T = TypeVar("T")
EVERY_PREFIX: Final = ""
PlanWrite: TypeAlias = Callable[[LogReader], tuple[R, Proposal | None]]
"""Plans on a read view: the report, and what is to be decided if there is anything to write."""
Recall: TypeAlias = Callable[[LogReader, Commit], R]
"""The report of a write that was accepted before, from its record."""


async def decided(space: SpaceApi, proposal: Proposal) -> CompletedWrite:
    """The record of a write that needs no plan; raises what it was refused with."""
    outcome = await space.decide(proposal)
    if isinstance(outcome, RefusedCommit):
        raise outcome.error
    if isinstance(outcome, Accepted):
        return done(outcome.commit)
    version = outcome.version
    return await space.read(lambda reader: done(reader.commits([version])[version]))


def done(commit: Commit) -> CompletedWrite:
    return CompletedWrite(version=commit.version, hash=commit.hash, time=commit.time)


async def carried_out(space: SpaceApi, asked: Asked, *, plan: PlanWrite[R], recall: Recall[R]) -> R:
    """Plans, decides, and plans again where the decision was overtaken; `MergeBusy` after `ATTEMPTS_MAX`.

    A write that was accepted before is answered from its record, whatever became of what it was planned on. Planning
    reads, so that a caller that may not write is refused before anything else.
    """

    def ask(reader: LogReader) -> tuple[R, Proposal | None]:
        before = accepted_before(reader, asked)
        if before is not None:
            return recall(reader, before), None
        check_may_write(reader, space.did, asked)
        return plan(reader)

    for _ in range(ATTEMPTS_MAX):
        report, proposal = await space.read(ask)
        if proposal is None:
            return report
        outcome = await space.decide(proposal)
        if isinstance(outcome, Accepted):
            return sealed(report, outcome.commit)
        if isinstance(outcome, Repeated):  # the same write was accepted since the look for it
            return (await space.read(ask))[0]
        if not isinstance(outcome.error, Conflict):
            raise outcome.error
    raise MergeBusy(attempts=ATTEMPTS_MAX)


async def predicted(space: SpaceApi, asked: Asked, *, plan: PlanWrite[R]) -> R:
    """What a plan would do if it were carried out now; shown to a caller that may read everything (ACL-2)."""

    def ask(reader: LogReader) -> R:
        check_may_preview(reader, space.did, asked)
        return plan(reader)[0]

    return await space.read(ask)


def sealed(report: R, commit: Commit) -> R:
    """The report of what was written with this record."""
    return msgspec.structs.replace(report, version=commit.version, hash=commit.hash, time=commit.time)


def accepted_before(reader: LogReader, asked: Asked) -> Commit | None:
    """The record of the same write; `IdentityClash` if another has its operation id (COMMIT-11)."""
    known = reader.accepted([asked.identity]).get(asked.identity)
    if known is None:
        return None
    if known.request != asked.request:
        raise IdentityClash(local=asked.identity.operation.hex(), version=known.version)
    return reader.commits([known.version])[known.version]


def check_may_write(reader: LogReader, space: Did, asked: Asked) -> None:
    """Raises `Forbidden` unless the principal may write something (ACL-1, ACL-4); decided again with the write."""
    rights = _rights(reader, space, asked)
    if rights.prefixes == NO_ID:
        raise permission.unfounded()
    if not rights.has("write"):
        raise Forbidden(action="write", needs="write")


def check_may_preview(reader: LogReader, space: Did, asked: Asked) -> None:
    """Raises `Forbidden` unless the principal may read every entity, or write something."""
    rights = _rights(reader, space, asked)
    if rights.prefixes == NO_ID:
        raise permission.unfounded()
    if not rights.has("write") and not (rights.has("read") and EVERY_PREFIX in rights.prefixes):
        raise Forbidden(action="read", needs="read, for every id")


def bounded(candidates: Iterable[T], limits: Limits) -> Iterator[T]:
    """What a preview looks at, at most as much as a query: `LimitExceeded` past `query_visits_max`."""
    visits_max = VISITS_PER_ENTITY_MAX * limits.query_entities_max
    for count, candidate in enumerate(candidates, 1):
        if count > visits_max:
            raise LimitExceeded(bound="query_visits_max", maximum=visits_max, actual=count)
        yield candidate


def _rights(reader: LogReader, space: Did, asked: Asked) -> Rights:
    roles, delegated = access_list(reader, space), asked.delegated
    if not delegated:
        return access_roles.by_list(roles, asked.identity.principal, space)
    revoked = reader.revoked({name for one in delegated for name in one.names})
    now = max(asked.at, reader.tip().time)
    return delegation.delegated_rights(delegated, roles=roles, is_revoked=revoked.__contains__, now=now)


def access_list(reader: LogReader, space: Did) -> object:
    """The value of the access list at the tip of the read view; it is no object where there is none."""
    list_id = EntityId(space)
    found = states.load(reader, moments.resolve(reader, ReadMoment(MAIN)).spans, [list_id]).get(list_id)
    return found and found.value


def check_bulk(count: int, limits: Limits) -> None:
    """How much one write may do that the server works out by itself."""
    if count > limits.bulk_operations_max:
        raise LimitExceeded(bound="bulk_operations_max", maximum=limits.bulk_operations_max, actual=count)


def write_of(step: Step | Fact) -> PlannedCommit:
    kind = step.kind
    assert kind != "checkpoint", "only a compaction writes checkpoints"
    return PlannedCommit(step.id, kind, step.body)
