"""Taking what the app gives: checked at once, encoded once, and a private copy from then on (MODEL-3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from stemmadb.protocol.errors import InvalidId, InvalidPointer, InvalidValue, LimitExceeded
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.patch import Footprint
from stemmadb.protocol.model.patch.operation import Operation
from stemmadb.protocol.model.values import body, ids, json_values, pointer
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits

# What encoding says to something that is not JSON: a wrong type, a lone surrogate, a list that holds itself.
_NOT_ENCODED: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_PATCH_LEVELS: Final = 3
"""Around a value in a patch: the list of operations, the operation, and the list of a splice."""
_SCALARS: Final = frozenset((bool, int, float, str, type(None)))


class CheckedValue(NamedTuple):
    """A value of the app: the bytes that go to the journal and the server, and what they mean."""

    body: bytes
    value: Value


class CheckedPatch(NamedTuple):
    """A patch of the app: its bytes, its operations and the paths that they touch."""

    body: bytes
    operations: list[dict[str, Value]]
    footprint: Footprint


def take_id(text: str, limits: Limits) -> EntityId:
    if not isinstance(text, str):
        raise InvalidId(id=repr(text)[:80], why=f"it is of type {type(text).__name__}, not a string")
    return ids.entity_id(text, limits.id_bytes_max)


def take_path(path: str, limits: Limits) -> tuple[str, ...]:
    """The tokens of a JSON Pointer that some value could have a place for."""
    if not isinstance(path, str):
        raise InvalidPointer(pointer=repr(path)[:80], why=f"it is of type {type(path).__name__}, not a string")
    tokens = pointer.parse(path)
    if len(tokens) > limits.depth_max + 1:
        raise LimitExceeded(bound="depth_max", maximum=limits.depth_max + 1, actual=len(tokens))
    return tokens


def take_value(value: object, limits: Limits) -> CheckedValue:
    """`InvalidValue` names the path of the first offence; `LimitExceeded` the bound of a value's bytes.

    Nothing is turned into something else on the way: a tuple or a date is refused, not stored as a list or a text.
    """
    encoded = _encoded(value, limits.depth_max)
    mine, _ = body.read_value(encoded, limits)
    if mine != value:
        raise _offence(value, limits.depth_max)
    return CheckedValue(encoded, mine)


def take_note(note: object, limits: Limits) -> bytes:
    """The bytes of a note, within its own bound (COMMIT-7)."""
    encoded = _encoded(note, limits.depth_max)
    if len(encoded) > limits.note_bytes_max:
        raise LimitExceeded(bound="note_bytes_max", maximum=limits.note_bytes_max, actual=len(encoded))
    mine, _ = body.read(encoded, depth_max=limits.depth_max)
    if mine != note:
        raise _offence(note, limits.depth_max)
    return encoded


def take_patch(operations: Sequence[Operation], limits: Limits) -> CheckedPatch:
    """`PatchFailed` for an operation that no value could make valid (PATCH-4)."""
    given = list(operations) if isinstance(operations, tuple) else operations
    encoded = _encoded(given, limits.depth_max + _PATCH_LEVELS)
    mine = body.read_patch(encoded, limits)
    if mine != given:
        raise _offence(given, limits.depth_max + _PATCH_LEVELS)
    footprint = patch.footprint(mine)
    for path in (*footprint.writes, *footprint.reads):
        take_path(path, limits)
    return CheckedPatch(encoded, mine, footprint)


def copied(value: Value) -> Value:
    """A copy that shares nothing which could be changed."""
    return value if type(value) in _SCALARS else body.read_stored(body.encode(value))


def found(value: Value, tokens: tuple[str, ...], default: Value = None) -> Value:
    """What is at a place of the value; the default where there is nothing."""
    for token in tokens:
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and value and (index := pointer.index(token, len(value) - 1)) is not None:
            value = value[index]
        else:
            return default
    return value


def _encoded(value: object, depth_max: int) -> bytes:
    try:
        return body.encode(value)
    except _NOT_ENCODED:
        raise _offence(value, depth_max) from None


def _offence(value: Any, depth_max: int) -> InvalidValue:
    """Why the value is not JSON; the walk that finds the place is slow, so it is made only for what was refused."""
    try:
        json_values.check(value, depth_max)
    except InvalidValue as why:
        return why
    raise AssertionError("what is JSON in every part is encoded, and is the same when it is read")
