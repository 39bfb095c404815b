"""Requests whose writes the server works out: merge and revert, with their reports (MERGE-1..4, COMMIT-9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

from stemmadb.protocol import identity
from stemmadb.protocol.errors import Forbidden, Malformed
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body, ids
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.structure import (
    MergeReport,
    MergeRequest,
    MergeWrite,
    Resolution,
    RevertAnswer,
    RevertRequest,
)
from stemmadb.server.engine.base.paging import ITEM_BYTES, Budget, fill
from stemmadb.server.engine.plan import merge as merging
from stemmadb.server.engine.plan import undo
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.engine.plan.planned_write import PlannedCommit
from stemmadb.server.engine.plan.undo import RevertWanted
from stemmadb.server.service.base.request_context import Caller, RequestContext
from stemmadb.server.service.requests import redaction
from stemmadb.server.service.requests.redaction import page_of_conflicts, planned, readable
from stemmadb.server.service.requests.writes import asked_for


class Resolved(Mapping[EntityId, Content]):
    """The resolutions of a merge, each read when a plan asks for it: in a worker, and not where it is repeated."""

    def __init__(self, resolutions: Sequence[Resolution], limits: Limits) -> None:
        self._bodies = {ids.entity_id(one.id, limits.id_bytes_max): one.body for one in resolutions}
        self._limits = limits
        if len(self._bodies) < len(resolutions):
            raise Malformed(path="resolutions", why="an entity is named twice")

    def __getitem__(self, id_: EntityId) -> Content:
        """Its value, or `ABSENT` if it is to be deleted."""
        encoded = self._bodies[id_]
        return Missing.ABSENT if encoded is None else body.read_value(encoded, self._limits)[0]

    def __contains__(self, id_: object) -> bool:
        return id_ in self._bodies

    def __iter__(self) -> Iterator[EntityId]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)


async def merge(request: MergeRequest, caller: Caller, context: RequestContext) -> MergeReport:
    """Concerns every id, like branches: what a merge leaves out is not merged by a later one (ACL-1).

    A repeated request gets the report again, with the conflicts that the caller may read (COMMIT-11, ACL-2).
    """
    if request.dry_run and (caller.is_narrow or not caller.rights.has("read")):
        raise Forbidden(action="preview a merge", needs="read, for every id")
    limits = context.space.limits
    resolutions = Resolved(request.resolutions, limits)
    wanted = MergeWanted(
        source=ids.branch_name(request.source),
        target=ids.branch_name(request.target),
        source_version=request.source_version,
        strategy=request.strategy,
        resolutions=resolutions,
        expect_target=request.expect_target,
    )
    asked = asked_for(request, caller, context, request.note)
    async with _turn(request, caller, context):
        with planned(caller, limits, tuple(resolutions), needs="read" if request.dry_run else "write"):
            done = await merging.merge(context.space, asked, wanted, known=context.merges, dry_run=request.dry_run)
    conflicts = readable(done.conflicts, caller)
    return MergeReport(
        version=done.version,
        hash=done.hash,
        time=done.time,
        source_version=done.source_version,
        target_version=done.target_version,
        conflicts_count=len(conflicts),
        conflicts=page_of_conflicts(conflicts, limits),
        writes_count=len(done.writes),
        writes=_predicted(done.writes, caller, limits) if request.dry_run else (),
    )


async def revert(request: RevertRequest, caller: Caller, context: RequestContext) -> RevertAnswer:
    """A full preview needs the right to read everything; a narrow one, the right to write what it would write."""
    is_open = request.dry_run and not caller.is_narrow
    if is_open and not caller.rights.has("read"):
        raise Forbidden(action="preview a revert", needs="read, for every id")
    if request.author is not None:
        identity.public_key(request.author)
    limits = context.space.limits
    wanted = RevertWanted(
        branch=ids.branch_name(request.branch),
        versions=request.versions,
        session=request.session,
        author=request.author,
        since=request.since,
    )
    asked = asked_for(request, caller, context, request.note)
    async with _turn(request, caller, context):
        with planned(caller, limits, needs="read" if is_open else "write"):
            done = await undo.revert(context.space, asked, wanted, dry_run=request.dry_run)
    return RevertAnswer(
        version=done.version,
        hash=done.hash,
        time=done.time,
        reverted=done.reverted,
        writes_count=len(done.writes),
        writes=_predicted(done.writes, caller, limits) if request.dry_run else (),
    )


@asynccontextmanager
async def _turn(
    request: MergeRequest | RevertRequest, caller: Caller, context: RequestContext
) -> AsyncIterator[None]:
    """A principal has one preview at a time: a reader must not keep the threads of all others busy."""
    if not request.dry_run:
        yield
        return
    async with context.previews.turn(caller.principal):
        yield


def _predicted(writes: Sequence[PlannedCommit], caller: Caller, limits: Limits) -> tuple[MergeWrite, ...]:
    """What would be written, as much as a page takes; `Forbidden` if a narrow caller could not write it (MERGE-4)."""
    if caller.is_narrow and not all(caller.rights.may_write(write.id) for write in writes):
        raise redaction.forbidden()
    page, _ = fill(enumerate(writes), _size, Budget(None, limits))
    return tuple(MergeWrite(id=write.id, kind=write.kind, body=write.body) for write in page)


def _size(write: PlannedCommit) -> int:
    return len(write.id.encode()) + len(write.body or b"") + ITEM_BYTES
