"""Writing: the operations of a commit become facts on the heads, in order, each seeing those before (COMMIT-6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from stemmadb.protocol.errors import Erased, NotFound, PatchFailed
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.proposal import Step
from stemmadb.protocol.model.log.changes import of_paths, push
from stemmadb.protocol.model.log.facts import NO_BODY, Fact, digest_of, hash_fact
from stemmadb.protocol.model.log.state import EntityState, Missing
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits

WrittenHeads: TypeAlias = dict[tuple[BranchName, EntityId], EntityState]
HeadsByKey: TypeAlias = Mapping[tuple[BranchName, EntityId], EntityState]


def write(
    steps: tuple[Step, ...], heads: HeadsByKey, version: Version, author: Did, salts: Iterator[bytes], limits: Limits
) -> tuple[tuple[Fact, ...], WrittenHeads]:
    """The facts of a commit and the heads after it; raises before anything is kept if a step cannot be done."""
    written: WrittenHeads = {}
    facts: list[Fact] = []
    work = patch.Work(limits.value_bytes_max)
    for index, step in enumerate(steps):
        place = (step.branch, step.id)
        head = written.get(place) or heads[place]
        if step.kind == "set":
            value, size = step.payload, step.size
        else:
            try:
                value, size = value_after(step, head, limits, work)
            except PatchFailed as failed:
                raise failed.of_operation(index, step.id) from None
        fact = _fact(step, head.hash, version, index, salts)
        facts.append(fact)
        written[place] = _head_after(step, head, fact.hash, value, size, version, author, limits.scan_facts_max)
    return tuple(facts), written


def value_after(step: Step, head: EntityState, limits: Limits, work: patch.Work) -> tuple[Value | Missing, int]:
    """The value that a patch, a checkpoint or a delete leaves, and its size; each needs one that is there."""
    value = head.value
    if value is Missing.ABSENT:
        raise NotFound(id=step.id, branch=step.branch)
    if isinstance(value, Missing):
        raise Erased(id=step.id)
    if step.kind == "patch":
        size_max, depth_max = limits.value_bytes_max, limits.depth_max
        return patch.apply_sized(value, head.size, step.payload, size_max=size_max, depth_max=depth_max, work=work)
    if step.kind == "checkpoint":
        return value, head.size
    return Missing.ABSENT, 0


def _fact(step: Step, parent: Hash, version: Version, index: int, salts: Iterator[bytes]) -> Fact:
    kind, id_, body = step.kind, step.id, step.body
    if body is None:
        salt, digest = None, NO_BODY
    else:
        salt = next(salts)
        digest = digest_of(salt, body)
    hash_ = hash_fact(kind, id_, parent, digest)
    # In the order of the fields: passing ten names costs as much as half a hash.
    return Fact(version, index, step.branch, id_, kind, parent, digest, hash_, salt, body)


def _head_after(
    step: Step,
    head: EntityState,
    hash_: Hash,
    value: Value | Missing,
    size: int,
    version: Version,
    author: Did,
    keep: int,
) -> EntityState:
    kind, id_ = step.kind, step.id
    if kind == "checkpoint":  # changes nothing and overlaps nothing: only the chain goes on (FACT-1)
        return EntityState(id_, head.version, hash_, value, size, head.changes, head.seen_after, version)
    change = of_paths(version, author, step.writes)
    changes, seen_after = push(head.changes, head.seen_after, change, keep)
    if kind != "patch":
        return EntityState(id_, version, hash_, value, size, changes, seen_after, version)
    patches, patch_bytes = head.patches + 1, head.patch_bytes + len(step.body or b"")
    return EntityState(id_, version, hash_, value, size, changes, seen_after, version, patches, patch_bytes)
