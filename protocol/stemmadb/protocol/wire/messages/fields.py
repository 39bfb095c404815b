"""The kinds of fields messages are made of: their bounds in every encoding, and their form in JSON (FACT-4)."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta

from stemmadb.protocol.identity import CHALLENGE_BYTES, SIGNATURE_BYTES
from stemmadb.protocol.model.commit.request import Content
from stemmadb.protocol.model.log.commit_record import Arguments
from stemmadb.protocol.model.log.facts import SALT_BYTES
from stemmadb.protocol.model.values.ids import HASH_BYTES, RANDOM_ID_BYTES, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values.json_values import INT_MAX


class EncodedField:
    """Marks bytes that are the msgpack of something; in JSON they are that thing itself (MODEL-4).

    `type` is what the bytes hold: a message part, or None for any JSON value.
    """

    __slots__ = ("type",)

    def __init__(self, type_: Any = None) -> None:
        self.type: Final = type_


def _exactly(count: int) -> Meta:
    return Meta(min_length=count, max_length=count)


_SAFE_MAX: Final = 2**53 - 1  # numbers that only name something stay exact in every language

RequestId: TypeAlias = Annotated[int, Meta(ge=1, le=_SAFE_MAX)]
WatchId: TypeAlias = Annotated[int, Meta(ge=1, le=_SAFE_MAX)]
WireVersion: TypeAlias = Annotated[Version, Meta(ge=0, le=INT_MAX)]
WireLocal: TypeAlias = Annotated[Local, Meta(ge=1, le=INT_MAX)]
WireTime: TypeAlias = Annotated[TimeMs, Meta(ge=0, le=INT_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=INT_MAX)]
PageSize: TypeAlias = Annotated[int, Meta(ge=1, le=INT_MAX)]
Cursor: TypeAlias = Annotated[str, Meta(max_length=2_048)]
"""Where a page ended, in the server's own words: given back as it was received."""

WireHash: TypeAlias = Annotated[Hash, _exactly(HASH_BYTES)]
RandomId: TypeAlias = Annotated[bytes, _exactly(RANDOM_ID_BYTES)]
Salt: TypeAlias = Annotated[bytes, _exactly(SALT_BYTES)]
Challenge: TypeAlias = Annotated[bytes, _exactly(CHALLENGE_BYTES)]
Signature: TypeAlias = Annotated[bytes, _exactly(SIGNATURE_BYTES)]

Body: TypeAlias = Annotated[bytes, EncodedField()]
"""The msgpack of a value or a patch list, exactly as its author made it."""
EncodedContent: TypeAlias = Annotated[bytes, EncodedField(Content)]
EncodedArguments: TypeAlias = Annotated[bytes, EncodedField(Arguments | None)]

BODIES_OF_THE_MODEL: Final = frozenset({("Operation", "body"), ("Content", "note")})
"""Fields of the model's own types that are bodies; the model knows nothing of JSON forms and does not mark them."""
