"""Query parameters: each once, each known, each of its type; anything else is 400. No I/O."""

from __future__ import annotations

import re
import types
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.access.access_token import PREFIX
from stemmadb.protocol.model.values.ids import MAIN
from stemmadb.protocol.wire.messages.fields import Cursor, PageSize, WireTime, WireVersion

FIELDS_MAX: Final = 64
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(Z|[+-][0-9]{2}:[0-9]{2})")


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a route, as OpenAPI lists them."""


class PageParams(Params, frozen=True, kw_only=True):
    """A page of a list. `after` is the `next` of the page before."""

    limit: PageSize | None = None
    after: Cursor | None = None


class MomentParams(Params, frozen=True, kw_only=True):
    """A branch at a version, at a time or at a tag; with none of them at its head."""

    branch: str = MAIN
    version: WireVersion | None = None
    time: str | None = None
    tag: str | None = None


P = TypeVar("P", bound=Params)


def read_params(query: str, cls: type[P]) -> P:
    """The parameters of a query string; `Malformed` names the first that is wrong."""
    given: dict[str, Any] = {}
    fields = _kinds(cls)
    for name, text in _pairs(query):
        if text.startswith(PREFIX):
            raise Malformed(path="(address)", why="a token must not stand in an address; send it in Authorization")
        if name not in fields:
            raise Malformed(path=f"(parameter {name[:80]!r})", why="there is no such parameter here")
        if name in given:
            raise Malformed(path=f"(parameter {name!r})", why="it is there twice")
        given[name] = _read(name, text, fields[name])
    try:
        return msgspec.convert(given, cls)
    except msgspec.ValidationError as wrong:
        raise Malformed(path="(parameters)", why=str(wrong)[:200]) from None


def read_time(text: str) -> WireTime:
    """Milliseconds since 1970, or RFC 3339 with a zone."""
    is_number = _INTEGER.fullmatch(text)
    if not is_number and not _TIME.fullmatch(text):
        raise Malformed(path="(parameter 'time')", why="write milliseconds since 1970, or 2026-01-31T12:00:00Z")
    try:
        milliseconds = int(text) if is_number else int(datetime.fromisoformat(text).timestamp() * 1_000)
        return msgspec.convert(milliseconds, WireTime)
    except (ValueError, OverflowError, msgspec.ValidationError):
        raise Malformed(path="(parameter 'time')", why="there is no such time") from None


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=FIELDS_MAX
        )
    except (ValueError, UnicodeDecodeError):
        raise Malformed(path="(parameters)", why="they are not name=value, percent-encoded as UTF-8") from None


@cache
def _kinds(cls: type[Params]) -> dict[str, Any]:
    return {name: _kind(hint) for name, hint in get_type_hints(cls).items()}


def _kind(hint: Any) -> Any:
    """int, bool or str; a literal is a text."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _kind(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return _kind(next(one for one in get_args(hint) if one is not type(None)))
    if origin is Literal:
        return str
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


def _read(name: str, text: str, kind: Any) -> Any:
    if kind is int:
        if not _INTEGER.fullmatch(text):
            raise Malformed(path=f"(parameter {name!r})", why="it is not a whole number")
        return int(text)
    if kind is bool:
        if text not in ("true", "false"):
            raise Malformed(path=f"(parameter {name!r})", why="it is true or false")
        return text == "true"
    return text
