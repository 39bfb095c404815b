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
from stemmadb.protocol.model import pointer, reference, values
from stemmadb.protocol.model.ids import HASH_BYTES, Local
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.stale import StaleRead
from stemmadb.protocol.model.values import Value
from stemmadb.protocol.wire.messages.commit import Current, Rejected
from stemmadb.protocol.wire.messages.session import ErrorMessage, Goodbye
from stemmadb.protocol.wire.messages.sync import Ended

_CURRENT_SHARE: Final = 4  # current values take at most this part of a frame's part, so that verdicts stay quick


def error_message(
    error: StemmaError, *, id_: int | None = None, local: Local | None = None, session: bytes | None = None
) -> ErrorMessage:
    """The answer to a request that failed, or to a message that could not be read."""
    return ErrorMessage(
        id=id_,
        local=local,
        session=session,
        code=error.code,
        message=plain_text(error.message),
        details=plain_facts(error.facts),
        retriable=error.retriable,
    )


def goodbye(error: StemmaError, *, retry_after_ms: int | None = None) -> Goodbye:
    """The last message of a connection."""
    details = plain_facts(error.facts)
    return Goodbye(code=error.code, message=plain_text(error.message), details=details, retry_after_ms=retry_after_ms)


def rejected(
    local: Local,
    error: StemmaError,
    *,
    session: bytes | None = None,
    current: Iterable[Current] = (),
    limits: Limits = DEFAULTS,
) -> Rejected:
    """The verdict against a commit, with as many stale reads and current values as the bounds allow (SYNC-5).

    Values are taken in the order given; one that is too large is left out, and the client asks for it.
    """
    facts = dict(error.facts)
    stale = tuple(facts.pop("stale", ()))
    return Rejected(
        local=local,
        session=session,
        code=error.code,
        message=plain_text(error.message),
        details=plain_facts(facts),
        stale=stale[: limits.page_max],
        current=tuple(_fitting(current, limits.part_bytes_max // _CURRENT_SHARE)),
    )


def _fitting(current: Iterable[Current], bytes_max: int) -> Iterable[Current]:
    taken = 0
    for item in current:
        size = len(item.body or b"") + len(item.id)
        if taken + size <= bytes_max:
            taken += size
            yield item


def restore(message: ErrorMessage | Goodbye | Rejected | Ended) -> StemmaError:
    """The error the other side had; stale reads and current values are objects again.

    A code of a newer peer becomes `Internal`, with the code as a fact.
    """
    facts: dict[str, Any] = dict(message.details)
    if isinstance(message, Rejected):
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


def plain_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an error as JSON values."""
    return {str(name): plain(fact) for name, fact in facts.items()}


def plain(fact: Any, depth: int = 0) -> Value:
    """A fact as a JSON value, whatever it was; a fact is for people and never worth a second error."""
    if depth > DEFAULTS.depth_max // 2:
        return "..."
    if isinstance(fact, Enum):
        return plain(fact.value, depth)
    if fact is None or isinstance(fact, bool):
        return fact
    if isinstance(fact, int):
        return int(fact) if values.INT_MIN <= fact <= values.INT_MAX else f"{fact:.6e}"
    if isinstance(fact, float):
        return fact if math.isfinite(fact) else str(fact)
    if isinstance(fact, bytes):
        return reference.write(fact) if len(fact) == HASH_BYTES else base64.b64encode(fact).decode()
    return _plain_group(fact, depth)


def _plain_group(fact: Any, depth: int) -> Value:
    if isinstance(fact, msgspec.Struct):
        given = msgspec.structs.asdict(fact).items()
        return {name: plain(item, depth + 1) for name, item in given if item is not None}
    if isinstance(fact, Mapping):
        return {plain_text(str(key)): plain(item, depth + 1) for key, item in fact.items()}
    if isinstance(fact, list | tuple | set | frozenset):
        return [plain(item, depth + 1) for item in fact]
    return plain_text(str(fact))


def plain_text(text: str) -> str:
    """Text that can be sent, whatever was in what it quotes."""
    return text if values.text_offence(text) is None else pointer.shown(text)
