"""Precedence: which of two changes was made last, by origin and not by the time of a merge (MERGE-3)."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.model.history import stamps
from stemmadb.protocol.model.history.difference import Content, is_gone, item, keys, same
from stemmadb.protocol.model.history.stamps import IsCommon, Stamp
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Version

_encode = msgspec.msgpack.Encoder(order="deterministic").encode  # the order of keys does not count (MODEL-3)


def source_is_later(
    base: Content,
    source: Content,
    target: Content,
    source_stamp: Stamp,
    target_stamp: Stamp,
    is_common: IsCommon,
) -> bool:
    """Whether the source's change since the base was made after the target's.

    A change is as late as the latest of what it changed; if both sides have that from one place, the next latest
    decides. What was made before the branches split is older than all since, and equally old. Changes of equal
    origins throughout are told apart by their bytes, so that both directions decide alike.
    """
    # Without a base the two can only be compared with each other.
    since_source, since_target = (target, source) if is_gone(base) else (base, base)
    mine = _origins(since_source, source, source_stamp, is_common)
    theirs = _origins(since_target, target, target_stamp, is_common)
    if mine != theirs:
        return mine > theirs
    return not same(source, target) and _bytes(source) > _bytes(target)


def latest(stamp: Stamp, is_common: IsCommon) -> Version:
    """The highest version anywhere in the stamps, or that of the empty space for all that is common."""
    return since_split(stamps.latest(stamp), is_common)


def since_split(version: Version, is_common: IsCommon) -> Version:
    return EMPTY_SPACE if is_common(version) else version


def _origins(old: Content, new: Content, stamp: Stamp, is_common: IsCommon) -> list[Version]:
    """The origins of everything that is not as it was, latest first."""
    found: list[Version] = []
    _collect(old, new, stamp, found)
    return sorted((since_split(version, is_common) for version in found), reverse=True)


def _collect(old: Content, new: Content, stamp: Stamp, found: list[Version]) -> None:
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in keys(old, new):
            _collect(item(old, key), item(new, key), stamps.child(stamp, key), found)
    else:
        found.append(_latest(new, stamp))


def _latest(content: Content, stamp: Stamp) -> Version:
    """The latest of the leaves, and of what was removed among them; an object has no origin of its own."""
    if not (isinstance(content, dict) and content):
        return stamps.latest(stamp)
    return max(_latest(item(content, key), stamps.child(stamp, key)) for key in {*content, *stamp.below})


def _bytes(content: Content) -> bytes:
    return b"" if isinstance(content, Missing) else _encode(content)
