"""A seeded mutator: changed inputs from good ones, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

CHANGES_MAX: Final = 4
BYTES_MAX: Final = 16 * 1024
"""Longer inputs find nothing that shorter ones do not, and take longer."""

_NUMBERS: Final = (b"\x00", b"\x7f", b"\x80", b"\xff", b"\xc1", b"\xcf" + b"\xff" * 8, b"-1", b"1e999", b"9" * 20)
_TEXTS: Final = (b'"', b"\\", b"{}", b"[]", b"null", b"\n", b"\r\n", b"/", b"~", b"*", b"\xed\xa0\x80", b'"$ref":"#"')


def mutated(corpus: Sequence[bytes], seed: str, count: int) -> Iterator[bytes]:
    """So many inputs, each made from one or two of the corpus by a few changes."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(corpus))
        for _ in range(chance.randint(1, CHANGES_MAX)):
            chance.choice(_CHANGES)(data, corpus, chance)
        yield bytes(data[:BYTES_MAX])


_Change = Callable[[bytearray, Sequence[bytes], random.Random], None]


def _place(data: bytearray, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _set(data: bytearray, _corpus: Sequence[bytes], chance: random.Random) -> None:
    at = _place(data, chance)
    data[at : at + 1] = bytes([chance.randrange(256)])


def _flip(data: bytearray, _corpus: Sequence[bytes], chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _remove(data: bytearray, _corpus: Sequence[bytes], chance: random.Random) -> None:
    at = _place(data, chance)
    del data[at : at + chance.choice((1, 1, 2, 8, 64))]


def _double(data: bytearray, _corpus: Sequence[bytes], chance: random.Random) -> None:
    at = _place(data, chance)
    data[at:at] = data[at : at + chance.choice((1, 4, 16, 64))]


def _insert(data: bytearray, _corpus: Sequence[bytes], chance: random.Random) -> None:
    at = _place(data, chance)
    data[at:at] = chance.choice((*_NUMBERS, *_TEXTS))


def _splice(data: bytearray, corpus: Sequence[bytes], chance: random.Random) -> None:
    other = chance.choice(corpus)
    begin = chance.randrange(len(other) + 1)
    at = _place(data, chance)
    data[at : at + chance.choice((0, 8, 32))] = other[begin : begin + chance.choice((4, 16, 64))]


def _cut(data: bytearray, _corpus: Sequence[bytes], chance: random.Random) -> None:
    del data[_place(data, chance) :]


_CHANGES: Final[tuple[_Change, ...]] = (_set, _set, _flip, _remove, _double, _insert, _splice, _splice, _cut)
