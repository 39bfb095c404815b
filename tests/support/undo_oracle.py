"""Undo by definition: a page of obvious code to compare with (COMMIT-9)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import body, pointer
from stemmadb.protocol.model.values.ids import Version


def is_refused(facts: Sequence[Fact], versions: Collection[Version]) -> bool:
    """Whether a fact that stays, and is later than one to undo, touched the same paths. All are of one entity."""
    kept = [fact for fact in facts if fact.version not in versions]
    undone = [fact for fact in facts if fact.version in versions]
    return any(later.version > fact.version and _touches(fact, later) for fact in undone for later in kept)


def replayed_without(before: Content, facts: Sequence[Fact], versions: Collection[Version]) -> Content:
    """What an undo that is not refused comes to."""
    return replay.fold(before, [fact for fact in facts if fact.version not in versions])


def _touches(fact: Fact, later: Fact) -> bool:
    """By the letter: the paths of two facts overlap; increments of one integer do not count."""
    one, other = (patch.footprint(_operations(it)) if it.kind == "patch" else None for it in (fact, later))
    if one is None or other is None:
        return True
    return any(
        pointer.overlaps(left, right) and not (left == right and left in one.increments and left in other.increments)
        for left in one.writes
        for right in other.writes
    )


def _operations(fact: Fact) -> Any:
    return body.read_stored(fact.body or b"")
