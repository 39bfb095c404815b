"""Blame: for each leaf path of an entity, the commit that last wrote it (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterable

from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, is_gone, item, keys, same
from stemmadb.protocol.model.history.origins import NEVER_WRITTEN, Traced, WrittenLeaves, follow
from stemmadb.protocol.model.history.stamps import Stamp
from stemmadb.protocol.model.log.commit_record import Merge
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import Version


def blame(facts: Iterable[WrittenLeaves]) -> dict[str, Version | None]:
    """Leaf path -> version, from the entity's facts on one lineage, oldest first; nothing for what has no value.

    The commit is the one on this lineage: a merge for what it changed, whoever first made it. A scalar, an array and
    an empty object are leaves; a write inside an array is a write of the array. None where the commit that wrote the
    leaf cannot be told any more, because a compaction took what a patch or a merge had changed.
    """
    state = NEVER_WRITTEN
    guesses: set[Version] = set()
    for written in facts:
        if _is_guess(state, written):
            guesses.add(written.fact.version)
        state = _followed(state, written)
    if isinstance(state.content, Missing):
        return {}
    found = stamps.leaves(state.content, state.stamp)
    return {path: None if version in guesses else version for path, version in found}


def writes_all(written: WrittenLeaves) -> bool:
    """Whether the fact wrote every leaf, so that those before it do not matter; true even where its body is gone."""
    fact, details = written.fact, written.details
    if isinstance(details, Merge):
        return fact.kind == "delete" or (fact.kind == "set" and fact.id in details.resolved)
    return fact.kind in ("set", "delete")


def _is_guess(before: Traced, written: WrittenLeaves) -> bool:
    """Whether the fact changed some leaves and nobody knows any more which: its stamp is the latest they can have."""
    fact, details = written.fact, written.details
    if fact.kind == "checkpoint" or writes_all(written):
        return False
    if isinstance(details, Merge):
        return fact.id not in details.resolved and (fact.is_gone or is_gone(before.content))
    return fact.is_gone


def _followed(before: Traced, written: WrittenLeaves) -> Traced:
    fact = written.fact
    if _names_its_leaves(written) and is_gone(before.content) and fact.body is not None:
        stamp = stamps.named(before.stamp, body.read_patch(fact.body), fact.version)
        return Traced(before.content, fact.version, stamp)
    return follow(before, written, _by_merge)


def _names_its_leaves(written: WrittenLeaves) -> bool:
    """Whether it is a patch of a client: which leaves it wrote is known even where the value it changed is not."""
    return written.fact.kind == "patch" and not isinstance(written.details, Merge)


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
