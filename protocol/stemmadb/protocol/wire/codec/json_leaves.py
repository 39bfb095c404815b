"""The JSON form of single fields: references as `b3:...`, bytes as base64, bodies as the values they hold (FACT-4).

A body that is present and null is a body, the value null; a body that is absent is none.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any, Final

import msgspec

from stemmadb.protocol.errors import InvalidReference, Malformed
from stemmadb.protocol.model.values import json_values, reference
from stemmadb.protocol.model.values.body import read_stored
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec import untyped

_PATCH_DEPTH: Final = 3  # a patch nests a value in a list, an operation and the list of a splice


class Plain:
    """What is the same on both sides; strings and numbers are held to MODEL-3."""

    def read(self, value: Any, path: str, limits: Limits) -> Any:  # noqa: ARG002
        if isinstance(value, str):
            why = json_values.text_offence(value)
        elif isinstance(value, float):
            why = None if math.isfinite(value) else "the number is not finite"
        elif isinstance(value, int):
            why = (
                None if json_values.INT_MIN <= value <= json_values.INT_MAX else "the integer does not fit in 64 bits"
            )
        else:
            why = None
        if why:
            raise Malformed(path=path, why=why)
        return value

    def write(self, value: Any) -> Any:
        return value


class Untyped:
    """Any JSON; `bounds` looks at it once the message is built."""

    def read(self, value: Any, path: str, limits: Limits) -> Any:  # noqa: ARG002
        return value

    def write(self, value: Any) -> Any:
        return value


class Reference:
    def read(self, value: Any, path: str, limits: Limits) -> Any:  # noqa: ARG002
        if not isinstance(value, str):
            return value
        try:
            return reference.read(value)
        except InvalidReference as wrong:
            raise Malformed(path=path, why=wrong.message) from None

    def write(self, value: Any) -> Any:
        return reference.write(value)


class Base64:
    """The standard alphabet, padded, one text for each byte string."""

    def read(self, value: Any, path: str, limits: Limits) -> Any:  # noqa: ARG002
        if not isinstance(value, str):
            return value
        try:
            read_ = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            read_ = None
        if read_ is None or self.write(read_) != value:
            raise Malformed(path=path, why="it is not padded base64 in the standard alphabet")
        return read_

    def write(self, value: Any) -> Any:
        return base64.b64encode(value).decode()


class Body:
    """The value itself, for which the fixed encoding makes the bytes."""

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        return untyped.encoded(value, path, depth_max=limits.depth_max + _PATCH_DEPTH)

    def write(self, value: Any) -> Any:
        return read_stored(value)  # it was checked when it was written, perhaps by other bounds


class Result:
    """What an `ok` brings: only the request tells its shape, so it stays JSON until that is known."""

    def read(self, value: Any, path: str, limits: Limits) -> Any:  # noqa: ARG002
        return msgspec.Raw(json.dumps(value).encode())

    def write(self, value: Any) -> Any:  # noqa: ARG002
        raise AssertionError("an answer is written by its own type")
