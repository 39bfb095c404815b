"""A commit message with two operations, read with its content and written: msgspec against msgpack + pydantic.

Both check every type and refuse unknown fields; operation bodies stay bytes, as they are hashed and stored as sent.
Ours also checks bounds and finds keys that occur twice; the other does neither.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgpack
from pydantic import BaseModel, ConfigDict, Field

from stemmadb.protocol.model.commit.request import Content, Operation, Read
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Local, Version
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, encode_content, read_content
from stemmadb.protocol.wire.messages.commit import CommitMessage

OURS, OTHER, TEXT = "stemmadb (msgspec)", "msgpack+pydantic", "stemmadb (JSON subprotocol)"

CONTENT = Content(
    operations=(
        Operation(op="set", id=EntityId("urn:todo:1"), body=encode({"title": "write the spec", "done": False})),
        Operation(
            op="patch", id=EntityId("urn:todo:2"), body=encode([{"op": "replace", "path": "/done", "value": True}])
        ),
    ),
    reads=(
        Read(version=Version(17), id=EntityId("urn:todo:1")),
        Read(version=Version(17), id=EntityId("urn:todo:2"), path="/done"),
    ),
)
NONCE = bytes(range(16))
Bytes16 = Annotated[bytes, Field(min_length=16, max_length=16)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Operation(_Strict):
    op: Literal["set", "patch", "delete"]
    id: str
    body: bytes | None = None
    blind: bool = False


class _Read(_Strict):
    version: int
    id: str | None = None
    prefix: str | None = None
    path: str = ""
    branch: str | None = None
    locals: list[int | list[bytes | int]] = []


class _Content(_Strict):
    operations: list[_Operation]
    reads: list[_Read] = []
    branch: str = "main"
    note: bytes | None = None


class _Commit(_Strict):
    type: Literal["commit"] = "commit"
    local: Annotated[int, Field(ge=1, le=2**63 - 1)]
    nonce: Bytes16
    content: bytes
    session: Bytes16 | None = None


def _message() -> CommitMessage:
    return CommitMessage(local=Local(12), nonce=NONCE, content=encode_content(CONTENT))


def run(quick: bool = False) -> list[dict[str, object]]:
    codec, text = MsgpackCodec(), JsonCodec()
    data, written = codec.encode(_message()), text.encode(_message())
    other_content = _Content.model_validate(msgpack.unpackb(encode_content(CONTENT)))

    def decode_ours() -> Content:
        return read_content(codec.read_client(data).content)  # type: ignore[union-attr]

    def decode_other() -> _Content:
        message = _Commit.model_validate(msgpack.unpackb(data))
        return _Content.model_validate(msgpack.unpackb(message.content))

    def encode_other() -> Any:
        content = msgpack.packb(other_content.model_dump(exclude_defaults=True))
        message = _Commit(local=12, nonce=NONCE, content=content)
        return msgpack.packb({"type": "commit", **message.model_dump(exclude_defaults=True)})

    assert decode_ours() == CONTENT
    assert msgpack.unpackb(encode_other()) == msgpack.unpackb(data)
    size = f"{len(data)} bytes, two operations"
    return [
        *_measured(
            f"wire decode and validate, commit of {size}",
            {OURS: decode_ours, OTHER: decode_other, TEXT: lambda: text.read_client(written)},
            quick=quick,
        ),
        *_measured(
            f"wire encode, commit of {size}",
            {OURS: lambda: codec.encode(_message()), OTHER: encode_other},
            quick=quick,
        ),
    ]


def _measured(scenario: str, systems: dict[str, Callable[[], Any]], *, quick: bool) -> list[dict[str, object]]:
    """Interleaved, so that a busy moment of the machine hits all alike; medians."""
    samples: dict[str, list[float]] = {name: [] for name in systems}
    number = 500
    for _ in range(10 if quick else 60):
        for name, call in systems.items():
            samples[name].append(timeit.timeit(call, number=number) / number * 1e6)
    return [
        {"scenario": scenario, "system": name, "p50_us": statistics.median(taken)} for name, taken in samples.items()
    ]
