"""Bodies: the msgpack bytes of a value or a patch list, read exactly and never written again (MODEL-4).

Reading has a fast path and an exact one. The fast path is a typed decoder that refuses everything but JSON in C; it
cannot see a key that occurs twice, so its result is trusted only if encoding it gives the same bytes back. Anything
else (a body nested deeper than the decoder's type, an encoding that is not minimal, an offence) goes to `scan.read`,
which is slower, accepts exactly what MODEL-3 accepts and names the path of the first offence.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from stemmadb.protocol.errors import InvalidValue, LimitExceeded
from stemmadb.protocol.model.values import scan
from stemmadb.protocol.model.values.json_values import INT_MAX, INT_MIN, Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

_FLOAT_MAX = 1.7976931348623157e308
_OPENERS = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
CONTAINERS_MAX = 500_000
_NO_PATCH = "a patch is a list of operations, each an object"
_FAST_LEVELS = 6  # each level doubles the decoder's type, and few documents are deeper

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
"""The fixed encoding: minimal msgpack, keys in the order given. For bodies made here, hashes and sizes."""


def _json_type(levels: int) -> Any:
    integer = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
    number = Annotated[float, msgspec.Meta(ge=-_FLOAT_MAX, le=_FLOAT_MAX)]
    scalar = bool | integer | number | str | None
    whole: Any = scalar
    for _ in range(levels):
        whole = scalar | list[whole] | dict[str, whole]
    return whole


_any = msgspec.msgpack.Decoder()
_fast_decode = msgspec.msgpack.Decoder(_json_type(_FAST_LEVELS)).decode
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError)


def read(body: bytes, *, depth_max: int = DEFAULTS.depth_max) -> tuple[Value, int]:
    """The value and the length of its minimal encoding; `InvalidValue` if it is not JSON (MODEL-3)."""
    if depth_max >= _FAST_LEVELS and (len(body) <= CONTAINERS_MAX or not _may_swell(body)):
        try:
            value: Value = _fast_decode(body)
            if encode(value) == body:
                return value, len(body)
        except _REFUSED:
            pass  # the exact reader says what is wrong, or takes what the fast one cannot
    value = scan.read(body, depth_max=depth_max)
    return value, len(encode(value))


class NotFast(Exception):
    """The fast reader cannot take it: it is wrong, or only deeper, or may be much larger in memory."""


def read_fast(body: bytes, depth_max: int) -> Value:
    """The value, known to be JSON but for keys that occur twice, of which the last is taken; else `NotFast`."""
    if depth_max < _FAST_LEVELS or (len(body) > CONTAINERS_MAX and _may_swell(body)):
        raise NotFast
    try:
        value: Value = _fast_decode(body)
    except _REFUSED:
        raise NotFast from None
    return value


def read_stored(body: bytes) -> Value:
    """The value of a body that was admitted before: whatever the bounds are now, it can be read (COMMIT-8)."""
    try:
        value: Value = _any.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidValue(path="", why="the stored bytes are damaged; verify the history") from None
    return value


def _may_swell(body: bytes) -> bool:
    """Whether there may be very many containers: an empty map is one byte here and 64 in memory.

    Counts the bytes that could begin one, text included; the exact reader then counts what there really is.
    """
    return len(body) - len(body.translate(None, _OPENERS)) > CONTAINERS_MAX


def read_value(body: bytes, limits: Limits = DEFAULTS) -> tuple[Value, int]:
    """The value of a `set` and its size, within the bounds of a value."""
    if len(body) > limits.value_bytes_max:
        raise LimitExceeded(bound="value_bytes_max", maximum=limits.value_bytes_max, actual=len(body))
    return read(body, depth_max=limits.depth_max)


def read_patch(body: bytes, limits: Limits = DEFAULTS) -> list[dict[str, Value]]:
    """The operations of a `patch`: a list of maps; what they mean is checked when they are applied."""
    if len(body) > limits.value_bytes_max:
        raise LimitExceeded(bound="value_bytes_max", maximum=limits.value_bytes_max, actual=len(body))
    operations, _ = read(body, depth_max=limits.depth_max + 3)  # list, operation, and the list of a splice
    if type(operations) is not list:
        raise InvalidValue(path="", why=_NO_PATCH)
    for operation in operations:
        if type(operation) is not dict:
            raise InvalidValue(path="", why=_NO_PATCH)
    if len(operations) > limits.patch_operations_max:
        raise LimitExceeded(bound="patch_operations_max", maximum=limits.patch_operations_max, actual=len(operations))
    return operations  # type: ignore[return-value]  # every item was just seen to be a dict
