"""The paths a patch writes and reads, known without the value it will be applied to (PATCH-4).

What it cannot know it takes for more: a last segment of digits may be an index, and elements shift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from stemmadb.protocol.errors import InvalidPointer
from stemmadb.protocol.model.patch import operation as op
from stemmadb.protocol.model.patch.operation import Operation
from stemmadb.protocol.model.values import pointer


class Footprint(msgspec.Struct, frozen=True, gc=False):
    """Canonical pointer texts, each once, in the order of first use.

    `increments` are those of `writes` that nothing but `increment` writes; such writes commute with each other.
    """

    writes: tuple[str, ...]
    reads: tuple[str, ...]
    increments: tuple[str, ...]


def footprint(operations: Sequence[Operation]) -> Footprint:
    """What the patch touches, never less (PATCH-4); `PatchFailed` for an operation that no value could make valid."""
    writes: dict[str, bool] = {}
    done = _note_replacements(writes, operations) if type(operations) is list else 0
    if done and done == len(operations):
        return Footprint(tuple(writes), (), ())
    trace = _Trace(writes)
    op.run(_HANDLERS, trace, operations, done)
    increments = tuple(path for path, only in writes.items() if only)
    return Footprint(tuple(writes), tuple(trace.reads), increments)


def _note_replacements(writes: dict[str, bool], operations: Sequence[Operation]) -> int:
    """Notes those at the beginning and says how many; most patches are nothing else, and no call is made for each."""
    done = 0
    try:
        for operation in operations:
            path = operation["path"]
            if operation["op"] != "replace" or "value" not in operation or type(path) is not str:
                break
            pointer.parse_short(path) if len(path) <= pointer.SHORT else pointer.parse(path)
            writes[path] = False
            done += 1
    except (LookupError, TypeError, InvalidPointer):
        pass  # its handler says what is wrong with it
    return done


class _Trace:
    """Collects paths; dicts keep them once and in order. A written path says whether only increments write it."""

    __slots__ = ("reads", "writes")

    def __init__(self, writes: dict[str, bool]) -> None:
        self.writes = writes
        self.reads: dict[str, None] = {}

    def write_or_shift(self, path: str) -> None:
        """Something may come or go here; in an array that moves all that is behind it."""
        last = pointer.last(path)
        self.writes[pointer.parent(path) if last == "-" or (last.isascii() and last.isdigit()) else path] = False

    def read(self, path: str) -> None:
        self.reads[path] = None

    def increment(self, path: str) -> None:
        self.writes.setdefault(path, True)


def _add(trace: _Trace, operation: Operation) -> None:
    op.value(operation)
    trace.write_or_shift(op.path(operation))


def _replace(trace: _Trace, operation: Operation) -> None:
    op.value(operation)
    trace.writes[op.path(operation)] = False


def _remove(trace: _Trace, operation: Operation) -> None:
    trace.write_or_shift(op.path(operation))


def _move(trace: _Trace, operation: Operation) -> None:
    op.ends(operation)
    source = op.path(operation, "from")
    trace.read(source)
    trace.write_or_shift(source)
    trace.write_or_shift(op.path(operation))


def _copy(trace: _Trace, operation: Operation) -> None:
    trace.read(op.path(operation, "from"))
    trace.write_or_shift(op.path(operation))


def _test(trace: _Trace, operation: Operation) -> None:
    op.value(operation)
    trace.read(op.path(operation))


def _splice(trace: _Trace, operation: Operation) -> None:
    op.cut(operation)
    trace.write_or_shift(op.path(operation))


def _increment(trace: _Trace, operation: Operation) -> None:
    op.step(operation)
    trace.increment(op.path(operation))


_HANDLERS: Final[Mapping[str, Callable[[_Trace, Operation], None]]] = {
    "add": _add,
    "replace": _replace,
    "remove": _remove,
    "move": _move,
    "copy": _copy,
    "test": _test,
    "splice": _splice,
    "increment": _increment,
}
