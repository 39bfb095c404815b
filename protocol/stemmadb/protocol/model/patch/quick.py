"""Applying within bounds; what is plain in one go: a member of an object that is replaced, added or incremented.

Most operations are of this kind, and for them the calls between `PatchDraft` and `Meter` cost more than what they do.
The quick way leaves the same value, size and work behind. It stops before the first operation that is anything else:
of another kind, through an array, at fault, near a bound. The general way goes on from there and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from stemmadb.protocol.errors import InvalidPointer
from stemmadb.protocol.model.patch import operation as op
from stemmadb.protocol.model.patch.apply import HANDLERS, increased
from stemmadb.protocol.model.patch.draft import Owned, PatchDraft
from stemmadb.protocol.model.patch.meter import DEPTH_EXTRA, Meter, Work, encode, head
from stemmadb.protocol.model.patch.operation import Fault, Operation, Tokens
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.json_values import Value

_Object: TypeAlias = dict[str, Value]
_PLAIN: Final = ("replace", "add", "increment")
_NOT_PLAIN: Final = (LookupError, TypeError, InvalidPointer, Fault)


def apply_sized(
    value: Value,
    size: int,
    operations: Sequence[Operation],
    *,
    size_max: int,
    depth_max: int,
    work: Work | None = None,
) -> tuple[Value, int]:
    """Like `apply`, and the length of the result's minimal msgpack encoding, given that of the value.

    Raises `LimitExceeded` as soon as an operation makes the value larger than `size_max` or deeper than `depth_max`,
    before it is made. `work` is shared by the patches that are bounded together.
    """
    work = work or Work(size_max)
    owned: Owned = {}
    done = 0
    if type(value) is dict and type(operations) is list:
        value, size, done = _apply_plain(value, size, operations, owned, size_max, depth_max, work)
        if done == len(operations):
            return value, size
    meter = Meter(size, size_max, depth_max, work)
    draft = PatchDraft(value, meter, owned)
    op.run(HANDLERS, draft, operations, done)
    return draft.root, meter.size


def _apply_plain(
    root: _Object, size: int, operations: list[Operation], owned: Owned, size_max: int, depth_max: int, work: Work
) -> tuple[_Object, int, int]:
    """The value and its size after the plain operations at the beginning, and how many those are.

    Each bound is looked at before anything is counted, so that the general way passes it by the same amount. One long
    function, because in a patch of two operations every call counts.
    """
    done = 0
    try:
        for operation in operations:
            kind, path = operation["op"], operation["path"]
            if kind not in _PLAIN or type(path) is not str or len(path) > pointer.SHORT:
                break
            above, key = _split(path)
            # Where it is: what holds the place becomes ours.
            if not owned:
                if work.done + len(root) > work.maximum:
                    break
                work.done += len(root)
                root = root.copy()
                owned[id(root)] = root
            holder = _own(root, above, owned, work) if above else root
            if holder is None:
                break
            # What it costs: as `Meter.swap` and `Meter.grow` count.
            if key in holder:
                old = holder[key]
                new = operation["value"] if kind != "increment" else increased(old, op.step(operation))
                came, went = len(encode(new)), len(encode(old))
                cost, grown = came + went, came - went
            elif kind == "add":
                new = operation["value"]
                came = cost = len(encode((key, new))) - 1
                grown = came + head(len(holder) + 1) - head(len(holder))
            else:
                break
            if len(above) + 1 + came > depth_max:
                if len(above) >= depth_max or type(new) is dict or type(new) is list:
                    break
                cost += DEPTH_EXTRA * came
            if (grown > 0 and size + grown > size_max) or work.done + cost > work.maximum:
                break
            # It is done.
            work.done += cost
            size += grown
            holder[key] = new
            done += 1
    except _NOT_PLAIN:
        pass
    return root, size, done


@lru_cache(maxsize=4096)  # asked for short paths only
def _split(path: str) -> tuple[Tokens, str]:
    """Where the holder of a place is, and its key there; an `IndexError` for the root, which has neither."""
    tokens = pointer.parse(path)
    return tokens[:-1], tokens[-1]


def _own(root: _Object, above: Tokens, owned: Owned, work: Work) -> _Object | None:
    """The object at a place, owned with all above it as in `PatchDraft`; None if one of them is not an object."""
    node: Any = root
    for token in above:
        child = node[token]
        if id(child) not in owned:
            if type(child) is not dict or work.done + len(child) > work.maximum:
                return None
            work.done += len(child)
            child = node[token] = child.copy()
            owned[id(child)] = child
        node = child
    return node  # type: ignore[no-any-return]
