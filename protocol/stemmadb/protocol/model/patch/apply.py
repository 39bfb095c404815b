"""Applying a patch: the eight operations, all or nothing (PATCH-1, PATCH-2).

The same code with and without the measuring of sizes: `apply_sized`, in quick.py, gives the draft a meter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from stemmadb.protocol.model.patch import operation as op
from stemmadb.protocol.model.patch.draft import PatchDraft
from stemmadb.protocol.model.patch.operation import Fault, Operation
from stemmadb.protocol.model.values import json_values
from stemmadb.protocol.model.values.json_values import INT_MAX, INT_MIN, Value


def apply(value: Value, operations: Sequence[Operation]) -> Value:
    """The value after the operations, or `PatchFailed` with the index of the first that fails, and why (PATCH-1).

    The old value is never changed, and what the operations do not touch is shared with it (PATCH-2); so is what
    the operations bring. For patches that were admitted before: it bounds nothing.
    """
    draft = PatchDraft(value)
    op.run(HANDLERS, draft, operations)
    return draft.root


def apply_each(value: Value, patches: Iterable[Sequence[Operation]]) -> Value:
    """The value after several patches, one after the other, as `apply` gives it; each container is copied once."""
    draft = PatchDraft(value)
    for operations in patches:
        op.run(HANDLERS, draft, operations)
    return draft.root


def increased(number: Value, by: int | float) -> int | float:
    """The sum, if both are numbers and it can be stored."""
    if type(number) is not int and type(number) is not float:
        raise Fault("only a number can be incremented")
    total = number + by
    if type(total) is int and not INT_MIN <= total <= INT_MAX:
        raise Fault("the sum does not fit in 64 bits")
    if not math.isfinite(total):
        raise Fault("the sum is not finite")
    return total


def _add(draft: PatchDraft, operation: Operation) -> None:
    draft.put(op.tokens(operation), op.value(operation))


def _replace(draft: PatchDraft, operation: Operation) -> None:
    draft.replace(op.tokens(operation), op.value(operation))


def _remove(draft: PatchDraft, operation: Operation) -> None:
    draft.remove(op.tokens(operation))


def _move(draft: PatchDraft, operation: Operation) -> None:
    source, target = op.ends(operation)
    value = draft.find(source)
    if source != target:
        draft.remove(source)
        draft.put(target, value)


def _copy(draft: PatchDraft, operation: Operation) -> None:
    source, target = op.tokens(operation, "from"), op.tokens(operation)
    draft.put(target, draft.share(draft.find(source)))


def _test(draft: PatchDraft, operation: Operation) -> None:
    found = draft.find(op.tokens(operation))
    if not json_values.equal(found, op.value(operation)):
        raise Fault("the test found another value")


def _splice(draft: PatchDraft, operation: Operation) -> None:
    draft.splice(op.tokens(operation), *op.cut(operation))


def _increment(draft: PatchDraft, operation: Operation) -> None:
    place, by = op.tokens(operation), op.step(operation)
    draft.replace(place, increased(draft.find(place), by))


HANDLERS: Final[Mapping[str, Callable[[PatchDraft, Operation], None]]] = {
    "add": _add,
    "replace": _replace,
    "remove": _remove,
    "move": _move,
    "copy": _copy,
    "test": _test,
    "splice": _splice,
    "increment": _increment,
}
