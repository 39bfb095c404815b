"""The inverse of a patch on the value it was applied to (for COMMIT-9).

The inverse stays on the paths of the patch, so that undoing it meets only what later facts did to those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from stemmadb.protocol.model.patch import operation as op
from stemmadb.protocol.model.patch.apply import HANDLERS, increased
from stemmadb.protocol.model.patch.draft import PatchDraft, insertion
from stemmadb.protocol.model.patch.operation import Operation, Tokens
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.json_values import INT_MAX, Value

Step: TypeAlias = dict[str, Value]
_Handler: TypeAlias = Callable[[PatchDraft, Operation], list[Step]]


def invert(value: Value, operations: Sequence[Operation]) -> list[Step]:
    """Operations that lead from `apply(value, operations)` back to a value equal to `value`.

    Increments of integers become increments, so that later increments by others stay. `PatchFailed` if the
    operations cannot be applied to the value.
    """
    undo = op.run(_HANDLERS, PatchDraft(value), operations)
    return [step for steps in reversed(undo) for step in steps]


def _before(kind: str, look: _Handler) -> _Handler:
    """First looks what will undo the operation, then performs it."""
    perform = HANDLERS[kind]

    def handler(draft: PatchDraft, operation: Operation) -> list[Step]:
        steps = look(draft, operation)
        perform(draft, operation)
        return steps

    return handler


def _put(draft: PatchDraft, operation: Operation) -> list[Step]:
    return [_undo_put(draft, op.tokens(operation))]


def _replace(draft: PatchDraft, operation: Operation) -> list[Step]:
    return [_keep("replace", draft, op.tokens(operation))]


def _remove(draft: PatchDraft, operation: Operation) -> list[Step]:
    return [_keep("add", draft, op.tokens(operation))]


def _nothing(_draft: PatchDraft, _operation: Operation) -> list[Step]:
    return []


def _splice(draft: PatchDraft, operation: Operation) -> list[Step]:
    place, (index, remove, added) = op.tokens(operation), op.cut(operation)
    array = draft.find(place)
    removed = [draft.share(item) for item in array[index : index + remove]] if isinstance(array, list) else []
    return [{"op": "splice", "path": pointer.write(place), "index": index, "remove": len(added), "add": removed}]


def _increment(draft: PatchDraft, operation: Operation) -> list[Step]:
    place, by = op.tokens(operation), op.step(operation)
    total = increased(draft.find(place), by)
    # Only integers have an integer sum; and the least of them has no negative in 64 bits.
    if type(total) is int and -by <= INT_MAX:
        return [{"op": "increment", "path": pointer.write(place), "by": -by}]
    return [_keep("replace", draft, place)]


def _move(draft: PatchDraft, operation: Operation) -> list[Step]:
    """A move is a remove and a put; its inverse undoes the put, then the remove, by a move back where that can do."""
    source, target = op.ends(operation)
    undo_remove = _keep("add", draft, source)
    if source == target:
        return []
    draft.remove(source)
    undo_put = _undo_put(draft, target)
    draft.put(target, undo_remove["value"])
    # A move back would lose what the put replaced, and may not go into what it moves.
    if undo_put["op"] == "remove" and source[: len(target)] != target:
        return [{"op": "move", "from": undo_put["path"], "path": undo_remove["path"]}]
    return [undo_put, undo_remove]


def _undo_put(draft: PatchDraft, place: Tokens) -> Step:
    """Undoes an `add` at this place: by what was there, or by removing it from where it will be."""
    if not place:
        return _keep("replace", draft, place)
    holder, last = draft.find(place[:-1]), place[-1]
    if isinstance(holder, dict):
        return _keep("replace", draft, place) if last in holder else {"op": "remove", "path": pointer.write(place)}
    exact = (*place[:-1], str(insertion(holder, last)))
    return {"op": "remove", "path": pointer.write(exact)}


def _keep(kind: str, draft: PatchDraft, place: Tokens) -> Step:
    """An operation that brings back what is at this place now."""
    return {"op": kind, "path": pointer.write(place), "value": draft.share(draft.find(place))}


_HANDLERS: Final[Mapping[str, _Handler]] = {
    "add": _before("add", _put),
    "replace": _before("replace", _replace),
    "remove": _before("remove", _remove),
    "move": _move,
    "copy": _before("copy", _put),
    "test": _before("test", _nothing),
    "splice": _before("splice", _splice),
    "increment": _before("increment", _increment),
}
