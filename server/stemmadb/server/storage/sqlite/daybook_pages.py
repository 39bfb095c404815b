"""The pages of a daybook: records of batches of any spaces, those of one page made durable by one sync.

A page begins where a block of the disk does. Its number is one more than that of the page before it, in whichever
volume that is, and its digest tells a whole page from one that a power failure has torn, or that was never written.
All pages of a volume have one key, drawn when the daybook was made: where a page was written over, what is left of it
may be the bytes of a body that somebody made to look like one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from blake3 import blake3

from stemmadb.protocol.model.ids import Did, Hash, Version
from stemmadb.server.storage.port import StorageFailed

BLOCK: Final = 4_096
DIGEST_BYTES: Final = 16

_OURS: Final = b"StD"
_MAGIC: Final = _OURS + b"1"
"""With the number of the format."""
KEY_BYTES: Final = 16
_HEAD: Final = struct.Struct(f">4s{KEY_BYTES}sQI")
_HEAD_BYTES: Final = _HEAD.size + DIGEST_BYTES
_COUNT: Final = struct.Struct(">BI")
_ARRAY: Final = 0xDD
"""How an array of as many elements as a number of 32 bits says begins in msgpack."""
OVERHEAD_BYTES: Final = _HEAD_BYTES + _COUNT.size


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The rows of a batch of plain commits, which follow the commit with the hash `previous` in their log."""

    space: Did
    previous: Hash
    first: Version
    last: Version
    cells: list[Any]
    """Of `connection.Cell`, which is more than the decoder tells apart by itself."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Record])
_record_decoder = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    return _encoder.encode(record)


def decode(record: bytes) -> Record:
    return _record_decoder.decode(record)


def size_of(records_bytes: int) -> int:
    """How much room a page with so many bytes of records takes: whole blocks."""
    return -(-(records_bytes + OVERHEAD_BYTES) // BLOCK) * BLOCK


def page(key: bytes, number: int, records: Sequence[bytes]) -> bytes:
    body = b"".join([_COUNT.pack(_ARRAY, len(records)), *records])
    head = _HEAD.pack(_MAGIC, key, number, len(body))
    whole = b"".join((head, _digest(head, body), body))
    return whole.ljust(size_of(len(body) - _COUNT.size), b"\0")


def read(volume: bytes) -> Iterator[tuple[int, list[Record]]]:
    """The pages of a volume with their numbers, up to the first that is none or does not follow the one before it."""
    at, expected = 0, None
    key = volume[len(_MAGIC) : len(_MAGIC) + KEY_BYTES]
    while (found := _page_at(volume, at, key)) is not None:
        number, body = found
        if expected not in (None, number):
            return
        yield number, _records(body)
        expected = number + 1
        at += size_of(len(body) - _COUNT.size)


def _page_at(volume: bytes, at: int, key: bytes) -> tuple[int, bytes] | None:
    if len(volume) - at < OVERHEAD_BYTES:
        return None
    head = volume[at : at + _HEAD.size]
    magic, its_key, number, length = _HEAD.unpack(head)
    body_at = at + _HEAD_BYTES
    body = volume[body_at : body_at + length]
    is_whole = len(body) == length and volume[at + _HEAD.size : body_at] == _digest(head, body)
    if not is_whole or its_key != key or not magic.startswith(_OURS):
        return None
    if magic != _MAGIC:
        raise _of_another_format()
    return number, body


def _records(body: bytes) -> list[Record]:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise _of_another_format() from error


def _of_another_format() -> StorageFailed:
    return StorageFailed("the daybook is of another StemmaDB: start the one that made it once more, and stop it")


def _digest(head: bytes, body: bytes) -> bytes:
    return blake3(head).update(body).digest(DIGEST_BYTES)
