"""The bridge between errors as objects and errors as messages: the same class again on the other side (WIRE-4)."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from stemmadb.protocol import errors
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.values import json_values, pointer, reference
from stemmadb.protocol.model.values.ids import HASH_BYTES, Local
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.messages.commit import Current, RejectedVerdict
from stemmadb.protocol.wire.messages.session import ErrorMessage, Goodbye
from stemmadb.protocol.wire.messages.sync import Ended

_CURRENT_SHARE: Final = 4  # current values take at most this part of a frame's part, so that verdicts stay quick
_TEXT_MAX: Final = 1_000  # what a person reads of a message or a fact; ids and names are shorter
_LEVELS_MAX: Final = 32
_GROUPS: Final = (msgspec.Struct, Mapping, list, tuple, set, frozenset)


def error_message(
    error: StemmaError,
    *,
    id_: int | None = None,
    local: Local | None = None,
    session: bytes | None = None,
    limits: Limits = DEFAULTS,
) -> ErrorMessage:
    """The answer to a request that failed, or to a message that could not be read; at most a page of stale reads."""
    facts = _documented(error)
    if isinstance(stale := facts.get("stale"), list | tuple):
        facts["stale"] = stale[: limits.page_max]
    return ErrorMessage(
        id=id_,
        local=local,
        session=session,
        code=error.code,
        message=plain_text(error.message),
        details=plain_facts(facts, limits),
        retriable=error.retriable,
    )


def _documented(error: StemmaError) -> dict[str, Any]:
    """The facts that `details` may have; `path` is a JSON Pointer, "" for the whole."""
    facts = {name: error.facts[name] for name in error.detail_keys() if name in error.facts}
    if isinstance(path := facts.get("path"), str):
        facts["path"] = _as_pointer(path) if isinstance(error, errors.Malformed) or path[:1] == "/" else ""
    return facts


def _as_pointer(place: str) -> str:
    """Where a message cannot be read, as a pointer into the message; a byte of it is in the sentence only."""
    if not place or place[0] == "/":
        return place
    return "" if place[0] == "(" or place.startswith("byte ") else "/" + place


def goodbye(error: StemmaError, *, retry_after_ms: int | None = None, limits: Limits = DEFAULTS) -> Goodbye:
    """The last message of a connection."""
    details = plain_facts(_documented(error), limits)
    return Goodbye(code=error.code, message=plain_text(error.message), details=details, retry_after_ms=retry_after_ms)


def rejected(
    local: Local,
    error: StemmaError,
    *,
    session: bytes | None = None,
    current: Iterable[Current] = (),
    limits: Limits = DEFAULTS,
) -> RejectedVerdict:
    """The verdict against a commit, with as many stale reads and current values as the bounds allow (SYNC-5).

    Values are taken in the order given; one that is too large is left out, and the client asks for it.
    """
    facts = _documented(error)
    stale = tuple(facts.pop("stale", ()))
    return RejectedVerdict(
        local=local,
        session=session,
        code=error.code,
        message=plain_text(error.message),
        details=plain_facts(facts, limits),
        stale=stale[: limits.page_max],
        current=tuple(fitting(current, limits)),
    )


def ended(watch: int, error: StemmaError, *, limits: Limits = DEFAULTS) -> Ended:
    """That a watch is over, and why."""
    details = plain_facts(_documented(error), limits)
    return Ended(watch=watch, code=error.code, message=plain_text(error.message), details=details)


def fitting(current: Iterable[Current], limits: Limits) -> Iterable[Current]:
    """Those that a rejection has room for; what is too large is left out, and the client asks for it (SYNC-5)."""
    bytes_max, taken = limits.part_bytes_max // _CURRENT_SHARE, 0
    for item in current:
        size = len(item.body or b"") + len(item.id)
        if taken + size <= bytes_max:
            taken += size
            yield item


def restore(message: ErrorMessage | Goodbye | RejectedVerdict | Ended) -> StemmaError:
    """The error the other side had; stale reads and current values are objects again.

    A code of a newer peer becomes `Internal`, with the code as a fact.
    """
    facts: dict[str, Any] = dict(message.details)
    if isinstance(message, RejectedVerdict):
        facts["stale"] = message.stale
        facts["current"] = message.current
    elif message.code == errors.Conflict.code:
        facts["stale"] = _stale(facts.get("stale"))
    if message.code not in errors.BY_CODE:
        facts["code"] = message.code
    return errors.restore(message.code, message.message, facts)


def _stale(listed: Any) -> Any:
    """Stale reads inside details, which carry no types; what is not one stays as it came."""
    try:
        return msgspec.convert(listed, tuple[StaleRead, ...])
    except msgspec.ValidationError:
        return listed


def plain_facts(facts: Mapping[str, Any], limits: Limits = DEFAULTS) -> dict[str, Any]:
    """The facts of an error as JSON values, no deeper than the peer reads."""
    levels = min(limits.depth_max - 1, _LEVELS_MAX)  # the facts themselves are one
    return {str(name): plain(fact, levels) for name, fact in facts.items()}


def plain(fact: Any, levels: int = _LEVELS_MAX) -> Value:
    """A fact as a JSON value, whatever it was; a fact is for people and never worth a second error."""
    if isinstance(fact, Enum):
        return plain(fact.value, levels)
    if fact is None or isinstance(fact, bool):
        return fact
    if isinstance(fact, int):
        return int(fact) if json_values.INT_MIN <= fact <= json_values.INT_MAX else f"{fact:.6e}"
    if isinstance(fact, float):
        return fact if math.isfinite(fact) else str(fact)
    if isinstance(fact, bytes):
        return reference.write(fact) if len(fact) == HASH_BYTES else base64.b64encode(fact).decode()
    if not isinstance(fact, _GROUPS):
        return plain_text(str(fact))
    return _plain_group(fact, levels - 1) if levels else "..."


def _plain_group(fact: Any, levels: int) -> Value:
    if isinstance(fact, msgspec.Struct):
        given = msgspec.structs.asdict(fact).items()
        return {name: _plain_member(item, levels) for name, item in given if item is not None}
    if isinstance(fact, Mapping):
        return {plain_text(str(key)): plain(item, levels) for key, item in fact.items()}
    return [plain(item, levels) for item in fact]


def _plain_member(item: Any, levels: int) -> Value:
    """A member of a typed fact, such as the path of a stale read, is not only for people: it stays whole."""
    return _sendable(item) if isinstance(item, str) else plain(item, levels)


def plain_text(text: str) -> str:
    """Text that can be sent, whatever was in what it quotes, and however much."""
    return _sendable(text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "...")


def _sendable(text: str) -> str:
    return text if json_values.text_offence(text) is None else pointer.shown(text)
