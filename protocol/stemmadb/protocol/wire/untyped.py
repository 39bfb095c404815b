"""JSON of no known shape inside a message: cleared in C if it is good, walked to name what is wrong (MODEL-3)."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from stemmadb.protocol.errors import InvalidValue, Malformed
from stemmadb.protocol.model import values
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.wire import failures

_LEVELS: Final = 6  # each level doubles the decoder's type; what is deeper is walked
_FLOAT_MAX: Final = 1.7976931348623157e308


def _json_type() -> Any:
    integer = Annotated[int, msgspec.Meta(ge=values.INT_MIN, le=values.INT_MAX)]
    number = Annotated[float, msgspec.Meta(ge=-_FLOAT_MAX, le=_FLOAT_MAX)]
    scalar = bool | integer | number | str | None
    whole: Any = scalar
    for _ in range(_LEVELS):
        whole = scalar | list[whole] | dict[str, whole]
    return whole


_json: Final = msgspec.msgpack.Decoder(_json_type())
_NOT_CLEARED: Final = (*failures.DecoderFailures, OverflowError)
"""What encoding and reading again raise for what is not JSON, and for what is only deeper than the decoder reads."""


def encoded(value: object, path: str, *, depth_max: int, limits: Limits) -> bytes:
    """The fixed encoding of a parsed value; `InvalidValue` with its place in the message if it is not JSON."""
    data = _cleared(value, depth_max)
    if data is not None:
        return data
    try:
        return encode(values.check(value, depth_max, limits.message_bytes_max))
    except InvalidValue as offence:
        place = path + failures.shown(offence.facts["path"])
        raise InvalidValue(path=place, why=offence.facts["why"]) from None
    except RecursionError as failure:  # a bound on depth that Python itself does not reach
        raise failures.malformed(failure, inside=path) from None


def check(value: object, path: str, limits: Limits) -> None:
    """`Malformed` unless it is JSON and no deeper than a value may be."""
    try:
        encoded(value, path, depth_max=limits.depth_max, limits=limits)
    except InvalidValue as offence:
        raise Malformed(path=offence.facts["path"], why=offence.facts["why"]) from None


def _cleared(value: object, depth_max: int) -> bytes | None:
    """The encoding, if the typed decoder takes it: that is every good value of few levels."""
    try:
        data = encode(value)
        if depth_max >= _LEVELS:
            _json.decode(data)
            return data
    except _NOT_CLEARED:
        pass
    return None
