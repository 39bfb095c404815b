"""A write ready to be decided: bodies read once, paths known, everything checked that needs no state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from stemmadb.protocol.errors import LimitExceeded, Malformed, PatchFailed, StemmaError, Undeclared
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.commit.request import Content, Operation, PendingName, Read
from stemmadb.protocol.model.log.commit_record import Arguments, Identity
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values import body, ids, pointer
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import INT_MAX, Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits


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


Meant: TypeAlias = dict[PendingName, Hash] | tuple[()]
"""By name; nearly always there are none."""


class Proposal(msgspec.Struct, frozen=True, gc=False):
    """What admission decides on. `merged` is the target's last merge a merge was computed on (MERGE-1).

    `planned` is the version of the cut that a plan was made on, where the declared reads do not cover all it looked
    at: what was destroyed since voids it and, if it destroys something itself, so do new branches, tags and merges.

    `delegated` is what a principal that shows delegations acts under, and under that alone (ACL-4).

    `meant` are the digests of own commits that its reads were made through, as far as they are known: another commit
    that was accepted under the same name, of a client with a copied journal, is not what it was built on (COMMIT-4).

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
    delegated: tuple[DelegatedRights, ...] = ()
    meant: Meant = ()
    refusal: StemmaError | None = None


_WHOLE = (pointer.ROOT,)
_Declared: TypeAlias = set[tuple[str, str]]
"""Ids with a path each."""


def prepare_or_refuse(
    identity: Identity,
    request: Hash,
    content: Content,
    limits: Limits = DEFAULTS,
    delegated: tuple[DelegatedRights, ...] = (),
    meant: Meant = (),
) -> Proposal:
    """As `prepare`, and never raises: what could never be accepted becomes a proposal that says why."""
    try:
        return prepare(identity, request, content, limits, delegated, meant)
    except StemmaError as refusal:
        return Proposal(identity=identity, request=request, branch=content.branch, refusal=refusal.without_trace())


def prepare(
    identity: Identity,
    request: Hash,
    content: Content,
    limits: Limits = DEFAULTS,
    delegated: tuple[DelegatedRights, ...] = (),
    meant: Meant = (),
) -> Proposal:
    """The proposal a client's commit makes; a typed error if it could never be accepted, whatever the state."""
    reads, branch = content.reads, content.branch
    _check_counts(content, limits)
    if delegated:
        _check_narrowed(reads, delegated, limits)
    if branch != MAIN:
        ids.branch_name(branch)
    steps, known, declared = [], set(), _Declared()
    for index, operation in enumerate(content.operations):
        try:
            step = step_of(operation, branch, limits)
        except PatchFailed as failed:
            raise failed.of_operation(index, operation.id) from None
        steps.append(step)
        known.add(step.id)
    prefixes = _declare(declared, reads, known, branch, limits)
    _check_covered(steps, declared, prefixes)
    if content.note is not None:
        _check_note(content.note, limits)
    # In the order of the fields: passing names costs as much as a step.
    return Proposal(
        identity, request, branch, tuple(steps), tuple(reads), None, content.note, None, None, delegated, meant, None
    )


def step_of(operation: Operation, branch: BranchName, limits: Limits = DEFAULTS) -> Step:
    """The operation with its body read; checks the id, the shape and the bounds of the value."""
    id_ = ids.entity_id(operation.id, limits.id_bytes_max)
    if operation.op == "delete":
        if operation.body is not None:
            raise Malformed(path="operations", why=f"the delete of {id_!r} has a body, and a delete has none")
        return Step("delete", branch, id_, None, None, 0, None, () if operation.blind else _WHOLE)
    if operation.body is None:
        raise Malformed(path="operations", why=f"the {operation.op} of {id_!r} has no body")
    if operation.op == "set":
        value, size = body.read_value(operation.body, limits)
        return Step("set", branch, id_, operation.body, value, size, None, () if operation.blind else _WHOLE)
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
    writes = footprint.writes
    for path in writes:
        if len(path) > limits.depth_max:  # what is shorter cannot be too deep
            _check_depth(path, limits)
    claims = () if blind else writes
    if claims and footprint.increments:
        free = frozenset(footprint.increments)
        claims = tuple(path for path in writes if path not in free)
    return Step("patch", branch, id_, body_, operations, 0, writes, claims)


def _check_narrowed(reads: Sequence[Read], delegated: tuple[DelegatedRights, ...], limits: Limits) -> None:
    """A read of a prefix becomes one for each prefix that is delegated, and counts as so many."""
    prefixes = sum(len(one.prefixes) for one in delegated)
    count = sum(prefixes for read in reads if read.prefix is not None)
    if count > limits.reads_max:
        raise LimitExceeded(bound="reads_max", maximum=limits.reads_max, actual=count)


def _check_counts(content: Content, limits: Limits) -> None:
    if not content.operations:
        raise Malformed(path="operations", why="a commit has at least one operation")
    if len(content.operations) > limits.operations_max:
        raise LimitExceeded(bound="operations_max", maximum=limits.operations_max, actual=len(content.operations))
    if len(content.reads) > limits.reads_max:
        raise LimitExceeded(bound="reads_max", maximum=limits.reads_max, actual=len(content.reads))


def _declare(
    declared: _Declared, reads: Sequence[Read], known: set[EntityId], branch: BranchName, limits: Limits
) -> tuple[str, ...]:
    """Checks the reads, and takes what those of the branch declare; returns their prefixes.

    The ids that are known are good.
    """
    prefixes: list[str] = []
    for index, read in enumerate(reads):
        id_, path, here = read.id, read.path, read.branch is None
        if not here or id_ is None or read.prefix is not None or read.locals or not 0 <= read.version <= INT_MAX:
            _check_form(read, index, limits)
            here = here or read.branch == branch
        if id_ is None:
            prefix = _check_prefix(read, index, limits)
            if here:
                prefixes.append(prefix)
            continue
        if id_ not in known:
            known.add(ids.entity_id(id_, limits.id_bytes_max))
        if path:
            _check_path(path, limits)
        if here:
            declared.add((id_, path))
    return tuple(prefixes)


def _check_form(read: Read, index: int, limits: Limits) -> None:
    """All but the id or the prefix."""
    if (read.id is None) is (read.prefix is None):
        raise Malformed(path=f"reads/{index}", why="a read names an id or a prefix, and not both")
    if not 0 <= read.version <= INT_MAX:
        raise Malformed(path=f"reads/{index}/version", why="a version is 0 or more and fits in 64 bits")
    if read.locals:
        _check_locals(read, index, limits)
    if read.branch is not None:
        ids.branch_name(read.branch)


def _check_locals(read: Read, index: int, limits: Limits) -> None:
    if len(read.locals) > limits.locals_max:
        raise LimitExceeded(bound="locals_max", maximum=limits.locals_max, actual=len(read.locals))
    locals_ = [name for name in read.locals if isinstance(name, int)]
    if locals_ and not 0 < min(locals_) <= max(locals_) <= INT_MAX:
        raise Malformed(path=f"reads/{index}/locals", why="a local is 1 or more and fits in 64 bits")


def _check_prefix(read: Read, index: int, limits: Limits) -> str:
    assert read.prefix is not None, "a read names an id or a prefix"
    prefix = ids.id_prefix(read.prefix, limits.id_bytes_max)
    if read.path:
        raise Malformed(path=f"reads/{index}/path", why="a prefix is read whole, without a path")
    return prefix


def _check_path(path: str, limits: Limits) -> None:
    pointer.parse(path)
    if len(path) > limits.depth_max:
        _check_depth(path, limits)


def _check_depth(path: str, limits: Limits) -> None:
    """No value has a place deeper than its bound; the paths above one are looked up, so there are few of them."""
    depth = path.count("/")
    if depth > limits.depth_max + 1:
        raise LimitExceeded(bound="depth_max", maximum=limits.depth_max + 1, actual=depth)


def _check_note(note: bytes, limits: Limits) -> None:
    if len(note) > limits.note_bytes_max:
        raise LimitExceeded(bound="note_bytes_max", maximum=limits.note_bytes_max, actual=len(note))
    body.read(note, depth_max=limits.depth_max)


def _place_in_patch(step: Step, claim: str) -> dict[str, int]:
    """Which operation of the patch writes the path; nothing for a `set` or a `delete`."""
    if step.kind != "patch":
        return {}
    first = next(at for at, one in enumerate(step.payload) if claim in patch.footprint([one]).writes)
    return {"patch_index": first}


def _check_covered(steps: Iterable[Step], declared: _Declared, prefixes: tuple[str, ...]) -> None:
    """Each path written lies in a declared read of the branch, or follows a whole write of its own (COMMIT-3)."""
    for index, step in enumerate(steps):
        id_ = step.id
        for claim in step.claims:
            if (id_, claim) in declared or (prefixes and id_.startswith(prefixes)):
                continue
            if declared.isdisjoint((id_, above) for above in pointer.ancestors(claim)):
                raise Undeclared(index=index, id=id_, path=claim, **_place_in_patch(step, claim))
        if step.writes is None:
            declared.add((id_, pointer.ROOT))
