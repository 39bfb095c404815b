"""The blocks of the group WAL. A block holds records of batches of any spaces, and one sync makes it durable.

Blocks are aligned to the sectors of the disk. The number of a block is one more than that of the block before it, in
either segment. Its digest tells a complete block from one that a power failure has torn or that was never written.
All blocks have one random key, drawn when the group WAL is created: the remains of an overwritten block can contain a
body that its author made to look like a block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from blake3 import blake3

from stemmadb.protocol.model.values.ids import Did, Hash, Version
from stemmadb.server.storage.port import StorageFailed

ALIGN_BYTES: Final = 4_096
DIGEST_BYTES: Final = 16

_OURS: Final = b"StD"
_MAGIC: Final = _OURS + b"1"
"""With the format version."""
KEY_BYTES: Final = 16
_HEAD: Final = struct.Struct(f">4s{KEY_BYTES}sQI")
_HEAD_BYTES: Final = _HEAD.size + DIGEST_BYTES
_COUNT: Final = struct.Struct(">BI")
_ARRAY: Final = 0xDD
"""The first byte of a msgpack array with a 32-bit length."""
OVERHEAD_BYTES: Final = _HEAD_BYTES + _COUNT.size


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The rows of a batch of fast-path commits that follow the commit with the hash `previous`."""

    space: Did
    previous: Hash
    first: Version
    last: Version
    cells: list[Any]
    """Each is a `connection.Cell`; msgspec cannot decode that union."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Record])
_record_decoder = msgspec.msgpack.Decoder(Record)


encode_record: Final = _encoder.encode


def decode_record(record: bytes) -> Record:
    return _record_decoder.decode(record)


def size_of(records_bytes: int) -> int:
    """The size of a block with so many bytes of records, rounded up to the alignment."""
    return -(-(records_bytes + OVERHEAD_BYTES) // ALIGN_BYTES) * ALIGN_BYTES


def encode_block(key: bytes, number: int, records: Sequence[bytes]) -> bytes:
    body = b"".join([_COUNT.pack(_ARRAY, len(records)), *records])
    head = _HEAD.pack(_MAGIC, key, number, len(body))
    digest = blake3(head).update(body).digest(DIGEST_BYTES)
    size = len(head) + DIGEST_BYTES + len(body)
    return b"".join((head, digest, body, bytes(-size % ALIGN_BYTES)))


def read(segment: bytes) -> Iterator[tuple[int, list[Record]]]:
    """The numbers and records of a segment's blocks, up to the first that is invalid or out of sequence."""
    at, expected = 0, None
    key = segment[len(_MAGIC) : len(_MAGIC) + KEY_BYTES]
    while (found := _block_at(segment, at, key)) is not None:
        number, body = found
        if expected not in (None, number):
            return
        yield number, _records(body)
        expected = number + 1
        at += size_of(len(body) - _COUNT.size)


def _block_at(segment: bytes, at: int, key: bytes) -> tuple[int, bytes] | None:
    if len(segment) - at < OVERHEAD_BYTES:
        return None
    head = segment[at : at + _HEAD.size]
    magic, its_key, number, length = _HEAD.unpack(head)
    body_at = at + _HEAD_BYTES
    body = segment[body_at : body_at + length]
    is_whole = len(body) == length and segment[at + _HEAD.size : body_at] == _digest(head, body)
    if not is_whole or its_key != key or not magic.startswith(_OURS):
        return None
    if magic != _MAGIC:
        raise _unknown_format()
    return number, body


def _records(body: bytes) -> list[Record]:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise _unknown_format() from error


def _unknown_format() -> StorageFailed:
    return StorageFailed("the group WAL is of another version of StemmaDB: start that version once and stop it")


def _digest(head: bytes, body: bytes) -> bytes:
    return blake3(head).update(body).digest(DIGEST_BYTES)
