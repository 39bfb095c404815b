"""Reading one patch operation: its members, each with its type, or a `Fault` that says what is wrong (PATCH-1).

An operation is a plain map as it comes from msgpack or JSON. Members that its kind does not use are ignored, as
RFC 6902 asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from stemmadb.protocol.errors import InvalidPointer, PatchFailed
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.json_values import INT_MAX, INT_MIN, Value

Operation: TypeAlias = Mapping[str, Value]
Tokens: TypeAlias = tuple[str, ...]
Subject = TypeVar("Subject")
Result = TypeVar("Result")


class Fault(Exception):
    """Why one operation cannot be applied; `run` adds which one it was."""


def run(
    handlers: Mapping[str, Callable[[Subject, Operation], Result]],
    subject: Subject,
    operations: Sequence[Operation],
    done: int = 0,
) -> list[Result]:
    """What each operation's handler gave, in order; `PatchFailed` with the index of the first that faults.

    The first `done` of them are done already and are left out.
    """
    # Text and maps can be walked too, so that it is a list has to be asked.
    if type(operations) is not list and type(operations) is not tuple:
        raise PatchFailed(patch_index=0, why="a patch is a list of operations", path="")
    results: list[Result] = []
    try:
        for operation in operations[done:] if done else operations:
            try:
                handler = handlers[operation["op"]]
            except (KeyError, TypeError):
                raise _unknown(operation) from None
            results.append(handler(subject, operation))
    except Fault as fault:
        index = done + len(results)
        raise PatchFailed(patch_index=index, why=str(fault), path=_shown_path(operations[index])) from None
    return results


def _shown_path(operation: object) -> str:
    text = operation.get("path") if isinstance(operation, Mapping) else None
    return pointer.shown(text) if isinstance(text, str) else ""


def _unknown(operation: object) -> Fault:
    if not isinstance(operation, Mapping):
        return Fault(f"an operation is a map, not {type(operation).__name__}")
    name = operation.get("op")
    return Fault(
        f"there is no operation {pointer.shown(name)!r}" if isinstance(name, str) else "'op' must be a string"
    )


def path(operation: Operation, member: str = "path") -> str:
    """The place an operation names, as its canonical text, which is the text as written once that can be read."""
    text = operation.get(member)
    if type(text) is not str:
        raise Fault(f"{member!r} must be a string")
    try:
        pointer.parse(text)
    except InvalidPointer as bad:
        raise Fault(f"{member!r} is not a JSON Pointer: {bad.facts['why']}") from None
    return text


def tokens(operation: Operation, member: str = "path") -> Tokens:
    """The place an operation names, as the tokens that lead to it."""
    text = operation.get(member)
    if type(text) is not str:
        raise Fault(f"{member!r} must be a string")
    try:
        # As `pointer.parse` does, without the call: this is asked for every operation.
        return pointer.parse_short(text) if len(text) <= pointer.SHORT else pointer.parse(text)
    except InvalidPointer as bad:
        raise Fault(f"{member!r} is not a JSON Pointer: {bad.facts['why']}") from None


def value(operation: Operation) -> Value:
    """The value an operation brings; null is one, none at all is not."""
    try:
        return operation["value"]
    except KeyError:
        raise Fault("'value' is missing") from None


def ends(operation: Operation) -> tuple[Tokens, Tokens]:
    """Source and target of a `move`; nothing can be moved into itself."""
    source, target = tokens(operation, "from"), tokens(operation)
    if len(source) < len(target) and target[: len(source)] == source:
        raise Fault("a value cannot be moved into itself")
    return source, target


def step(operation: Operation) -> int | float:
    """By how much an `increment` changes the number."""
    by = operation.get("by")
    if type(by) is not float and (type(by) is not int or not INT_MIN <= by <= INT_MAX):
        raise Fault("'by' must be a number of 64 bits")
    return by


def cut(operation: Operation) -> tuple[int, int, list[Value]]:
    """Where a `splice` cuts, how many elements it takes out, and what it puts there."""
    added = operation.get("add")
    if type(added) is not list:
        raise Fault("'add' must be an array")
    return _count(operation, "index"), _count(operation, "remove"), added


def _count(operation: Operation, member: str) -> int:
    number = operation.get(member)
    if type(number) is not int or number < 0:
        raise Fault(f"{member!r} must be an integer of 0 or more")
    return number
