"""Requests that write beside plain commits: branches, tags, erase, compact, revoke (COMMIT-11, BRANCH-1, ERASE-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stemmadb.protocol.errors import LimitExceeded, Malformed
from stemmadb.protocol.model import body, ids
from stemmadb.protocol.model.commit import OperationIdentity, Revoke
from stemmadb.protocol.model.ids import BranchName
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.proposal import Proposal
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
from stemmadb.server.engine import branching, compacting, erasing
from stemmadb.server.engine.api import Asked
from stemmadb.server.engine.carrying_out import Done, decided
from stemmadb.server.service.asking import Asker, Desk
from stemmadb.server.service.guarding import structural


def asked_for(request: WriteRequest, asker: Asker, desk: Desk, note: bytes | None = None) -> Asked:
    """Who asks for it, so that it is done once, and what it is known by (COMMIT-11)."""
    if note is not None:
        _check_note(note, desk.space.limits)
    identity = OperationIdentity(asker.principal, request.operation)
    return Asked(identity, operation_digest(request), note, lent=asker.lent, at=desk.now())


async def create_branch(request: CreateBranch, asker: Asker, desk: Desk) -> Written:
    name, parent = ids.branch_name(request.name), ids.branch_name(request.parent)
    asked = asked_for(request, asker, desk, request.note)
    with structural(asker, "write"):
        done = await branching.create_branch(desk.space, asked, name=name, parent=parent, fork=request.fork)
    return _written(done)


async def delete_branch(request: DeleteBranch, asker: Asker, desk: Desk) -> Written:
    name = ids.branch_name(request.name)
    asked = asked_for(request, asker, desk, request.note)
    with structural(asker, "write"):
        return _written(await branching.delete_branch(desk.space, asked, name=name))


async def create_tag(request: CreateTag, asker: Asker, desk: Desk) -> Written:
    name, branch = ids.branch_name(request.name), ids.branch_name(request.branch)
    asked = asked_for(request, asker, desk, request.note)
    with structural(asker, "write"):
        done = await branching.create_tag(desk.space, asked, name=name, branch=branch, version=request.version)
    return _written(done)


async def delete_tag(request: DeleteTag, asker: Asker, desk: Desk) -> Written:
    name = ids.branch_name(request.name)
    asked = asked_for(request, asker, desk, request.note)
    with structural(asker, "write"):
        return _written(await branching.delete_tag(desk.space, asked, name=name))


async def erase(request: EraseRequest, asker: Asker, desk: Desk) -> EraseAnswer:
    """Destroys bodies, and the blobs that are named with everything that was sent of them (ERASE-1)."""
    id_ = ids.entity_id(request.entity, desk.space.limits.id_bytes_max)
    survivors = _survivors(request.survivors)
    asked = asked_for(request, asker, desk, request.note)
    with structural(asker, "own"):
        done = await erasing.erase(desk.space, asked, id_, request.versions, survivors, request.blobs)
    if request.blobs:
        await desk.blobs.remove(request.blobs)
    return EraseAnswer(version=done.version, hash=done.hash, time=done.time, erased=done.erased)


def _survivors(survivors: Sequence[Survivor]) -> Mapping[BranchName, bytes | None]:
    found = {ids.branch_name(one.branch): one.body for one in survivors}
    if len(found) < len(survivors):
        raise Malformed(path="survivors", why="a branch is named twice")
    return found


async def compact(request: CompactRequest, asker: Asker, desk: Desk) -> CompactAnswer:
    asked = asked_for(request, asker, desk, request.note)
    with structural(asker, "own"):
        done = await compacting.compact(desk.space, asked, request.floor, now=desk.now())
    return CompactAnswer(
        version=done.version,
        hash=done.hash,
        time=done.time,
        floor=done.floor,
        bodies=done.bodies,
        blobs=done.blobs,
        bytes=done.bytes,
    )


async def revoke(request: RevokeRequest, asker: Asker, desk: Desk) -> Written:
    """An ordinary write: what follows it is judged without the delegation (ACL-1, ACL-4)."""
    asked = asked_for(request, asker, desk)
    proposal = Proposal(
        identity=asked.identity,
        request=asked.request,
        branch=None,
        details=Revoke(delegation=request.delegation),
        lent=asked.lent,
    )
    with structural(asker, "own"):
        return _written(await decided(desk.space, proposal))


def _written(done: Done) -> Written:
    return Written(version=done.version, hash=done.hash, time=done.time)


def _check_note(note: bytes, limits: Limits) -> None:
    if len(note) > limits.note_bytes_max:
        raise LimitExceeded(bound="note_bytes_max", maximum=limits.note_bytes_max, actual=len(note))
    body.read(note, depth_max=limits.depth_max)
