"""Arrays as PostgreSQL takes them in binary form: a header, then each element behind its length.

We pack them ourselves: psycopg looks at each element, which costs more than the append.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER: Final = struct.Struct(">iIIii")
_LENGTH: Final = struct.Struct(">i").pack
_NULL: Final = _LENGTH(-1)
_INT4, _INT8, _BYTEA, _TEXT = 23, 20, 17, 25


class Packed:
    """An array, packed."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Int4Array(Packed):
    """`int[]`"""


class Int8Array(Packed):
    """`bigint[]`"""


class ByteaArray(Packed):
    """`bytea[]`"""


class TextArray(Packed):
    """`text[]`"""


def int4s(values: Sequence[int | None]) -> Int4Array:
    return Int4Array(_header(_INT4, len(values)) + _numbers("i", 4, values))


def int8s(values: Sequence[int | None]) -> Int8Array:
    return Int8Array(_header(_INT8, len(values)) + _numbers("q", 8, values))


def byteas(values: Sequence[bytes | None]) -> ByteaArray:
    return ByteaArray(_header(_BYTEA, len(values)) + _strings(values))


def texts(values: Sequence[str]) -> TextArray:
    return TextArray(_header(_TEXT, len(values)) + _strings([value.encode() for value in values]))


def _header(element: int, count: int) -> bytes:
    """One dimension that counts from 1; nulls are allowed. An empty array has no dimension."""
    return _HEADER.pack(1, 1, element, count, 1) if count else struct.pack(">iII", 0, 0, element)


def _numbers(form: str, size: int, values: Sequence[int | None]) -> bytes:
    if None in values:
        pack = struct.Struct(f">i{form}").pack
        return b"".join([_NULL if value is None else pack(size, value) for value in values])
    return _struct(form, len(values)).pack(*[cell for value in values for cell in (size, value)])


@lru_cache(maxsize=512)
def _struct(form: str, count: int) -> struct.Struct:
    return struct.Struct(">" + f"i{form}" * count)


def _strings(values: Sequence[bytes | None]) -> bytes:
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH(len(value)), value)
    return b"".join(parts)


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Packed) -> bytes:
        return obj.data


class _Int4sDumper(_PackedDumper):
    oid = 1007


class _Int8sDumper(_PackedDumper):
    oid = 1016


class _ByteasDumper(_PackedDumper):
    oid = 1001


class _TextsDumper(_PackedDumper):
    oid = 1009


def register(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Teaches a connection to send packed arrays."""
    adapters = connection.adapters
    adapters.register_dumper(Int4Array, _Int4sDumper)
    adapters.register_dumper(Int8Array, _Int8sDumper)
    adapters.register_dumper(ByteaArray, _ByteasDumper)
    adapters.register_dumper(TextArray, _TextsDumper)
