"""A write ready to be decided: bodies read once, paths known, everything checked that needs no state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stemmadb.protocol.errors import LimitExceeded, Malformed, StemmaError, Undeclared
from stemmadb.protocol.model import body, ids, patch, pointer
from stemmadb.protocol.model.commit import Arguments, Identity
from stemmadb.protocol.model.facts import FactKind
from stemmadb.protocol.model.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.request import Content, Operation, Read
from stemmadb.protocol.model.values import INT_MAX, Value


class Step(msgspec.Struct, frozen=True, gc=False):
    """One operation: `payload` is the value of a `set` or the list of a `patch`; `writes` None is every path.

    `claims` are the written paths that need a declared read: none if blind, and never those that are only
    incremented, so that increments do not collide (COMMIT-3).
    """

    kind: FactKind
    branch: BranchName
    id: EntityId
    body: bytes | None
    payload: Any
    size: int
    writes: tuple[str, ...] | None
    claims: tuple[str, ...]


class Proposal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What admission decides on. `merged` is the target's last merge a merge was computed on (MERGE-1).

    `planned` is the version of the cut that a plan was made on, where the declared reads do not cover all it looked
    at: what was destroyed since voids it and, if it destroys something itself, so do new branches, tags and merges.

    `refusal` is why it could never be accepted. It is told only if the identity was not accepted before: a commit
    that is sent again after a bound was lowered gets its first answer (COMMIT-5).
    """

    identity: Identity
    request: Hash
    branch: BranchName | None
    steps: tuple[Step, ...] = ()
    reads: tuple[Read, ...] = ()
    details: Arguments | None = None
    note: bytes | None = None
    merged: Version | None = None
    planned: Version | None = None
    refusal: StemmaError | None = None


_WHOLE = (pointer.ROOT,)
_NONE: frozenset[str] = frozenset()


def prepare_or_refuse(identity: Identity, request: Hash, content: Content, limits: Limits = DEFAULTS) -> Proposal:
    """As `prepare`, and never raises: what could never be accepted becomes a proposal that says why."""
    try:
        return prepare(identity, request, content, limits)
    except StemmaError as refusal:
        return Proposal(identity=identity, request=request, branch=content.branch, refusal=refusal)


def prepare(identity: Identity, request: Hash, content: Content, limits: Limits = DEFAULTS) -> Proposal:
    """The proposal a client's commit makes; a typed error if it could never be accepted, whatever the state."""
    _check_counts(content, limits)
    branch = ids.branch_name(content.branch)
    steps = tuple(step_of(operation, branch, limits) for operation in content.operations)
    reads = tuple(_check_read(read, index, limits) for index, read in enumerate(content.reads))
    _check_covered(steps, reads, branch)
    return Proposal(
        identity=identity,
        request=request,
        branch=branch,
        steps=steps,
        reads=reads,
        note=_check_note(content.note, limits),
    )


def step_of(operation: Operation, branch: BranchName, limits: Limits = DEFAULTS) -> Step:
    """The operation with its body read; checks the id, the shape and the bounds of the value."""
    id_ = ids.entity_id(operation.id, limits.id_bytes_max)
    if operation.op == "delete":
        if operation.body is not None:
            raise Malformed(path="operations", why=f"the delete of {id_!r} brings a body")
        return Step("delete", branch, id_, None, None, 0, None, () if operation.blind else _WHOLE)
    if operation.body is None:
        raise Malformed(path="operations", why=f"the {operation.op} of {id_!r} brings no body")
    if operation.op == "set":
        return set_step(branch, id_, operation.body, blind=operation.blind, limits=limits)
    return patch_step(branch, id_, operation.body, blind=operation.blind, limits=limits)


def set_step(
    branch: BranchName, id_: EntityId, body_: bytes, *, blind: bool = False, limits: Limits = DEFAULTS
) -> Step:
    value, size = body.read_value(body_, limits)
    return Step("set", branch, id_, body_, value, size, None, () if blind else _WHOLE)


def patch_step(
    branch: BranchName, id_: EntityId, body_: bytes, *, blind: bool = False, limits: Limits = DEFAULTS
) -> Step:
    operations: Sequence[dict[str, Value]] = body.read_patch(body_, limits)
    footprint = patch.footprint(operations)
    for path in footprint.writes:
        _check_depth(path, limits)
    claims: tuple[str, ...] = ()
    if not blind:
        free = frozenset(footprint.increments)
        claims = tuple(path for path in footprint.writes if path not in free) if free else footprint.writes
    return Step("patch", branch, id_, body_, operations, 0, footprint.writes, claims)


def _check_counts(content: Content, limits: Limits) -> None:
    if not content.operations:
        raise Malformed(path="operations", why="a commit has at least one operation")
    if len(content.operations) > limits.operations_max:
        raise LimitExceeded(bound="operations_max", maximum=limits.operations_max, actual=len(content.operations))
    if len(content.reads) > limits.reads_max:
        raise LimitExceeded(bound="reads_max", maximum=limits.reads_max, actual=len(content.reads))


def _check_read(read: Read, index: int, limits: Limits) -> Read:
    if (read.id is None) is (read.prefix is None):
        raise Malformed(path=f"reads/{index}", why="a read names an id or a prefix, and not both")
    if not 0 <= read.version <= INT_MAX:
        raise Malformed(path=f"reads/{index}/version", why="a version is 0 or more and fits in 64 bits")
    if len(read.locals) > limits.locals_max:
        raise LimitExceeded(bound="locals_max", maximum=limits.locals_max, actual=len(read.locals))
    if any(isinstance(name, int) and not 0 < name <= INT_MAX for name in read.locals):
        raise Malformed(path=f"reads/{index}/locals", why="a local is 1 or more and fits in 64 bits")
    if read.branch is not None:
        ids.branch_name(read.branch)
    if read.prefix is not None:
        ids.id_prefix(read.prefix, limits.id_bytes_max)
        if read.path:
            raise Malformed(path=f"reads/{index}/path", why="a prefix is read whole, without a path")
    else:
        ids.entity_id(read.id or "", limits.id_bytes_max)
        pointer.parse(read.path)
        _check_depth(read.path, limits)
    return read


def _check_depth(path: str, limits: Limits) -> None:
    """No value has a place deeper than its bound; the paths above one are looked up, so there are few of them."""
    depth = path.count("/")
    if depth > limits.depth_max + 1:
        raise LimitExceeded(bound="depth_max", maximum=limits.depth_max + 1, actual=depth)


def _check_note(note: bytes | None, limits: Limits) -> bytes | None:
    if note is not None:
        if len(note) > limits.note_bytes_max:
            raise LimitExceeded(bound="note_bytes_max", maximum=limits.note_bytes_max, actual=len(note))
        body.read(note, depth_max=limits.depth_max)
    return note


def _check_covered(steps: Iterable[Step], reads: Iterable[Read], branch: BranchName) -> None:
    """Each path written lies in a declared read of the branch, or follows a whole write of its own (COMMIT-3)."""
    paths: dict[str, set[str]] = {}
    listed: list[str] = []
    for read in reads:
        if read.branch is None or read.branch == branch:
            if read.prefix is not None:
                listed.append(read.prefix)
            else:
                assert read.id is not None, "a read names an id or a prefix"
                paths.setdefault(read.id, set()).add(read.path)
    prefixes = tuple(listed)
    for index, step in enumerate(steps):
        declared = paths.get(step.id) or _NONE
        if step.claims and not step.id.startswith(prefixes):
            for claim in step.claims:
                if declared.isdisjoint(pointer.ancestors(claim)):
                    raise Undeclared(index=index, id=step.id, path=claim)
        if step.writes is None:
            paths.setdefault(step.id, set()).add(pointer.ROOT)
