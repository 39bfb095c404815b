"""Turns what the decoder says about bad input into our own typed errors, with the place and the reason."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from stemmadb.protocol.errors import Malformed, StemmaError, UnknownMessage
from stemmadb.protocol.model.values import pointer

WHOLE: Final = "(message)"
RESERVED: Final = "channel"
_AT: Final = " - at `"
_STEP = re.compile(r"[.\[]([^.\[\]]+)\]?")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_SHOWN_MAX: Final = 200

DecoderFailures: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Everything the decoders raise for bad input; nothing else is caught, so internal errors stay visible."""


def malformed(failure: Exception, *, inside: str = "", type_: str | None = None) -> StemmaError:
    """The typed error for a decoder's failure. `inside` is the place of what was decoded within its message."""
    if isinstance(failure, RecursionError):
        return Malformed(path=inside or WHOLE, why="it is nested too deep")
    if isinstance(failure, UnicodeError):
        return Malformed(path=inside or WHOLE, why="a string is not valid Unicode")
    why, path = _split(str(failure))
    if path == "type" and not inside and type_ is not None:
        return UnknownMessage(type=shown(type_))
    return _explained(why, "/".join(part for part in (inside, path) if part))


def _split(text: str) -> tuple[str, str]:
    """What the decoder says and where: "Expected `int`, got `str` - at `$.query.roots[0].id`"."""
    cut = text.rfind(_AT)
    if cut < 0:
        return text, ""
    return text[:cut], "/".join(_STEP.findall(text[cut + len(_AT) :].rstrip("`")[-1_000:]))


def _explained(why: str, path: str) -> Malformed:
    field = _FIELD.fullmatch(why)
    if field is None:
        return Malformed(path=path or WHOLE, why=shown(why))
    name = shown(field[2])
    place = f"{path}/{name}" if path else name
    if field[1] == "missing required":
        return Malformed(path=place, why="it is missing")
    if place == RESERVED:
        return Malformed(path=place, why="it is reserved; in this protocol a connection carries one session")
    return Malformed(path=place, why="there is no such field")


def shown(text: Any) -> str:
    """Enough of what was sent to recognise it, safe to print and to send."""
    return pointer.shown(str(text)[:_SHOWN_MAX])
