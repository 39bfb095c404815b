"""Calls that carry an idempotency key, and the queue of what is to be erased: small records without any text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from blake3 import blake3

from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import InvalidRequest, KeyReused

KEY_BYTES_MAX = 255
_CONTEXT: Final = "stemmadb.memory 2026-11 arguments of a call"
"""Keeps the derived key apart from the name of the call's entity, which is a hash of the idempotency key too."""


class CallAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an answer is built from again: ids and a status, never text."""

    ids: list[str] = msgspec.field(default_factory=list)
    status: str = "done"


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `urn:memory-call:<hash>`, created in the commit of its call."""

    v: Literal[1] = 1
    arguments: str
    """A hash of the call's arguments, keyed by its idempotency key."""
    answer: CallAnswer
    at: Millis


class ForgetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `urn:forget:<uuid>`: deleted in this commit, and to be erased."""

    v: Literal[1] = 1
    ids: list[str]
    """Entity ids; one that ends with `*` means all with that prefix."""
    asked_by: str
    at: Millis


def check_key(key: str) -> str:
    if not 0 < len(key.encode("utf-8", "surrogatepass")) <= KEY_BYTES_MAX:
        raise InvalidRequest(f"An idempotency key has 1 to {KEY_BYTES_MAX} bytes.", field="idempotency_key")
    return key


def hash_arguments(key: str, arguments: Mapping[str, object]) -> str:
    """The same for the same arguments, in whatever order they came.

    Keyed by the idempotency key, which is stored nowhere: a reader of the record cannot test a guess of their text.
    """
    secret = blake3(key.encode("utf-8", "surrogatepass"), derive_key_context=_CONTEXT).digest()
    return blake3(msgspec.json.encode(arguments, order="sorted"), key=secret).hexdigest()


def answered_before(value: object, arguments: str) -> CallAnswer:
    """The answer that the first call got; `KeyReused` if that call had other arguments."""
    record = msgspec.convert(value, CallRecord)
    if record.arguments != arguments:
        raise KeyReused
    return record.answer
