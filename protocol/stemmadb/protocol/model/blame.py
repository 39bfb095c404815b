"""Blame: for each leaf path of an entity, the commit that last wrote it (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterable

from stemmadb.protocol.model import stamps
from stemmadb.protocol.model.commit import Merge
from stemmadb.protocol.model.difference import Content, item, keys, same
from stemmadb.protocol.model.ids import Version
from stemmadb.protocol.model.origins import NEVER_WRITTEN, Traced, Written, follow
from stemmadb.protocol.model.stamps import Stamp
from stemmadb.protocol.model.state import Missing


def blame(facts: Iterable[Written]) -> dict[str, Version]:
    """Leaf path -> version, from the entity's facts on one lineage, oldest first; nothing for what has no value.

    The commit is the one on this lineage: a merge for what it changed, whoever first made it. A scalar, an array and
    an empty object are leaves; a write inside an array is a write of the array.
    """
    state = NEVER_WRITTEN
    for written in facts:
        state = follow(state, written, _by_merge)
    if isinstance(state.content, Missing):
        return {}
    return dict(stamps.leaves(state.content, state.stamp))


def _by_merge(before: Traced, content: Content, version: Version, _: Merge) -> Stamp:
    return _changed(before.content, content, before.stamp, version)


def _changed(old: Content, new: Content, stamp: Stamp, version: Version) -> Stamp:
    """Only what differs was written: a merge may say `set` where a few fields came from the other side."""
    if same(old, new):
        return stamp
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return stamps.whole(version)
    below = dict(stamp.below)
    for key in keys(old, new):
        if not same(item(old, key), item(new, key)):
            below[key] = _changed(item(old, key), item(new, key), stamps.child(stamp, key), version)
    return Stamp(stamp.version, stamp.assigned, below)
