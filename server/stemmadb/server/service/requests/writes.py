"""Requests that write other than commits: branches, tags, erase, compact, revoke (COMMIT-11, BRANCH-1, ERASE-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stemmadb.protocol.errors import Forbidden, LimitExceeded, Malformed, Unauthenticated
from stemmadb.protocol.model.access import access_token
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import OperationIdentity, Revoke, RevokeOwn
from stemmadb.protocol.model.values import body, ids
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.access import RevokeRequest
from stemmadb.protocol.wire.messages.base import WriteRequest, Written
from stemmadb.protocol.wire.messages.structure import (
    CompactAnswer,
    CompactRequest,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    EraseAnswer,
    EraseRequest,
    Survivor,
    operation_digest,
)
from stemmadb.server.engine.base.space_port import Asked
from stemmadb.server.engine.plan import branch_writes, compaction, erasure
from stemmadb.server.engine.plan.planned_write import CompletedWrite, decided
from stemmadb.server.service.base.request_context import Caller, RequestContext
from stemmadb.server.service.requests.redaction import structural


def asked_for(request: WriteRequest, caller: Caller, context: RequestContext, note: bytes | None = None) -> Asked:
    """Who asks for it, so that it is done once, and what it is known by (COMMIT-11)."""
    if note is not None:
        _check_note(note, context.space.limits)
    identity = OperationIdentity(caller.principal, request.operation)
    return Asked(identity, operation_digest(request), note, delegated=caller.delegated, at=context.now())


async def create_branch(request: CreateBranch, caller: Caller, context: RequestContext) -> Written:
    name, parent = ids.branch_name(request.name), ids.branch_name(request.parent)
    asked = asked_for(request, caller, context, request.note)
    with structural(caller, "write"):
        done = await branch_writes.create_branch(context.space, asked, name=name, parent=parent, fork=request.fork)
    return _written(done)


async def delete_branch(request: DeleteBranch, caller: Caller, context: RequestContext) -> Written:
    name = ids.branch_name(request.name)
    asked = asked_for(request, caller, context, request.note)
    with structural(caller, "write"):
        return _written(await branch_writes.delete_branch(context.space, asked, name=name))


async def create_tag(request: CreateTag, caller: Caller, context: RequestContext) -> Written:
    name, branch = ids.branch_name(request.name), ids.branch_name(request.branch)
    asked = asked_for(request, caller, context, request.note)
    with structural(caller, "write"):
        done = await branch_writes.create_tag(context.space, asked, name=name, branch=branch, version=request.version)
    return _written(done)


async def delete_tag(request: DeleteTag, caller: Caller, context: RequestContext) -> Written:
    name = ids.branch_name(request.name)
    asked = asked_for(request, caller, context, request.note)
    with structural(caller, "write"):
        return _written(await branch_writes.delete_tag(context.space, asked, name=name))


async def erase(request: EraseRequest, caller: Caller, context: RequestContext) -> EraseAnswer:
    """Destroys bodies, and the blobs that are named with everything that was sent of them (ERASE-1)."""
    targets = _targets(request, context.space.limits)
    survivors = _survivors(request.survivors)
    asked = asked_for(request, caller, context, request.note)
    with structural(caller, "own"):
        done = await erasure.erase(context.space, asked, targets, survivors, request.blobs)
    if request.blobs:
        await context.blobs.remove(request.blobs)
    return EraseAnswer(version=done.version, hash=done.hash, time=done.time, erased=done.erased)


def _targets(request: EraseRequest, limits: Limits) -> Mapping[EntityId, Sequence[Version]]:
    """The entity first, then the further ones."""
    found = {ids.entity_id(request.entity, limits.id_bytes_max): request.versions}
    for index, one in enumerate(request.entities):
        id_ = ids.entity_id(one.id, limits.id_bytes_max)
        if id_ in found:
            raise Malformed(path=f"entities/{index}", why="an entity is named twice")
        found[id_] = one.versions
    return found


def _survivors(survivors: Sequence[Survivor]) -> Mapping[BranchName, bytes | None]:
    found = {ids.branch_name(one.branch): one.body for one in survivors}
    if len(found) < len(survivors):
        raise Malformed(path="survivors", why="a branch is named twice")
    return found


async def compact(request: CompactRequest, caller: Caller, context: RequestContext) -> CompactAnswer:
    asked = asked_for(request, caller, context, request.note)
    with structural(caller, "own"):
        done = await compaction.compact(context.space, asked, request.floor, now=context.now())
    return CompactAnswer(
        version=done.version,
        hash=done.hash,
        time=done.time,
        floor=done.floor,
        bodies=done.bodies,
        blobs=done.blobs,
        bytes=done.bytes,
    )


async def revoke(request: RevokeRequest, caller: Caller, context: RequestContext) -> Written:
    """An ordinary write: what follows it is judged without the delegation (ACL-1, ACL-4)."""
    asked = asked_for(request, caller, context)
    is_own = request.token is not None
    if request.token is not None:
        _check_own_token(request.token, request.delegation, caller, context)
    proposal = Proposal(
        identity=asked.identity,
        request=asked.request,
        branch=None,
        details=(RevokeOwn if is_own else Revoke)(delegation=request.delegation),
        delegated=asked.delegated,
    )
    with structural(caller, "read" if is_own else "own"):
        return _written(await decided(context.space, proposal))


def _check_own_token(data: bytes, name: Hash, caller: Caller, context: RequestContext) -> None:
    """Its bytes show who signed it; with a name alone anybody could end somebody else's token (TOKEN-4)."""
    try:
        token = access_token.read(data)
    except Unauthenticated as wrong:
        raise Malformed(path="token", why=str(wrong.facts["why"])) from None
    if access_token.name_of(data) != name:
        raise Malformed(path="token", why="'delegation' is not the hash of its bytes")
    if token.principal != caller.principal:
        raise Forbidden(action="take back a token of somebody else", needs="own")
    if token.space != context.space.did or token.expires <= context.now():
        raise Malformed(path="token", why="it is for another space, or has expired")


def _written(done: CompletedWrite) -> Written:
    return Written(version=done.version, hash=done.hash, time=done.time)


def _check_note(note: bytes, limits: Limits) -> None:
    if len(note) > limits.note_bytes_max:
        raise LimitExceeded(bound="note_bytes_max", maximum=limits.note_bytes_max, actual=len(note))
    body.read(note, depth_max=limits.depth_max)
