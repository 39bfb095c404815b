"""Writing: the operations of a commit become facts on the heads, in order, each seeing those before (COMMIT-6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from stemmadb.protocol.errors import Erased, NotFound
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.changes import of_paths, push
from stemmadb.protocol.model.draft import Draft
from stemmadb.protocol.model.facts import NO_BODY, Fact, digest_of, hash_fact
from stemmadb.protocol.model.ids import BranchName, Did, EntityId, Hash, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.proposal import Step
from stemmadb.protocol.model.state import EntityState, Missing
from stemmadb.protocol.model.values import Value

Written: TypeAlias = dict[tuple[BranchName, EntityId], EntityState]


def write(
    steps: tuple[Step, ...], draft: Draft, *, version: Version, author: Did, salts: Iterator[bytes], limits: Limits
) -> tuple[tuple[Fact, ...], Written]:
    """The facts of a commit and the heads after it; raises before anything is kept if a step cannot be done."""
    written: Written = {}
    facts: list[Fact] = []
    work = patch.Work(limits.value_bytes_max)
    for index, step in enumerate(steps):
        place = (step.branch, step.id)
        head = written.get(place) or draft.entity(step.branch, step.id)
        value, size = _value_after(step, head, limits, work)
        fact = _fact(step, head.hash, version, index, salts)
        written[place] = _head_after(step, head, fact, value, size, author, limits)
        facts.append(fact)
    return tuple(facts), written


def _value_after(step: Step, head: EntityState, limits: Limits, work: patch.Work) -> tuple[Value | Missing, int]:
    if step.kind == "set":
        return step.payload, step.size
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
    body = step.body
    salt = None if body is None else next(salts)
    digest = NO_BODY if body is None or salt is None else digest_of(salt, body)
    hash_ = hash_fact(step.kind, step.id, parent, digest)
    # In the order of the fields: passing ten names costs as much as half a hash.
    return Fact(version, index, step.branch, step.id, step.kind, parent, digest, hash_, salt, body)


def _head_after(
    step: Step, head: EntityState, fact: Fact, value: Value | Missing, size: int, author: Did, limits: Limits
) -> EntityState:
    version = fact.version
    if step.kind == "checkpoint":  # changes nothing and overlaps nothing: only the chain goes on (FACT-1)
        return EntityState(head.id, head.version, fact.hash, value, size, head.changes, head.seen_after, version)
    change = of_paths(version, author, step.writes)
    changes, seen_after = push(head.changes, head.seen_after, change, limits.scan_facts_max)
    return EntityState(head.id, version, fact.hash, value, size, changes, seen_after, version)
