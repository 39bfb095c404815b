"""JSON of no known shape inside a message: cleared in C if it is good, walked to name what is wrong (MODEL-3)."""

from __future__ import annotations

from typing import Final

from stemmadb.protocol.errors import InvalidValue, Malformed
from stemmadb.protocol.model.values import json_values
from stemmadb.protocol.model.values.body import NotFast, encode, read_fast
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec import failures

_WALKED_MAX: Final = 1_000_000  # items; a walk takes a fraction of a second, and the model takes no more than that
_NOT_CLEARED: Final = (*failures.DecoderFailures, OverflowError, NotFast)
"""What encoding and reading again raise for what is not JSON, and for what is only deeper than the decoder reads."""


def encoded(value: object, path: str, *, depth_max: int) -> bytes:
    """The fixed encoding of a parsed value; `InvalidValue` with its place in the message if it is not JSON."""
    data = _cleared(value, depth_max)
    if data is not None:
        return data
    try:
        return encode(json_values.check(value, depth_max, _WALKED_MAX))
    except InvalidValue as offence:
        place = path + failures.shown(offence.facts["path"])
        raise InvalidValue(path=place, why=offence.facts["why"]) from None
    except RecursionError as failure:  # a bound on depth that Python itself does not reach
        raise failures.malformed(failure, inside=path) from None


def check(value: object, path: str, limits: Limits) -> None:
    """`Malformed` unless it is JSON and no deeper than a value may be."""
    try:
        encoded(value, path, depth_max=limits.depth_max)
    except InvalidValue as offence:
        raise Malformed(path=offence.facts["path"], why=offence.facts["why"]) from None


def _cleared(value: object, depth_max: int) -> bytes | None:
    """The encoding, if the typed decoder takes it: that is every good value of few levels and not too many parts."""
    try:
        data = encode(value)
        read_fast(data, depth_max)
    except _NOT_CLEARED:
        return None
    return data
