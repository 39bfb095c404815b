"""Blocks of the group WAL: what was written is read back, and nothing that is torn, stale or of another pass is."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from space import ALICE, BOB, SPACE
from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite.connection import Cell
from stemmadb.server.storage.sqlite.wal import blocks
from stemmadb.server.storage.sqlite.wal.blocks import ALIGN_BYTES, OVERHEAD_BYTES, Record

KEY = b"k" * blocks.KEY_BYTES
SEEDS = range(20)
SECTOR = 512


def cell(dice: random.Random, size_max: int) -> Cell:
    some: list[Cell] = [None, dice.randint(0, 1 << 62), dice.randbytes(dice.randint(0, size_max)), "urn:é"]
    return dice.choice(some)


def record(dice: random.Random, size_max: int = 600) -> Record:
    first = dice.randint(1, 1 << 40)
    cells = [cell(dice, size_max) for _ in range(dice.randint(0, 40))]
    space = dice.choice([SPACE, ALICE, BOB])
    return Record(space, Hash(dice.randbytes(32)), Version(first), Version(first + dice.randint(0, 9)), cells)


def some_blocks(dice: random.Random, first: int, count: int) -> list[tuple[int, list[Record]]]:
    numbers = range(first, first + count)
    return [(number, [record(dice) for _ in range(dice.randint(1, 5))]) for number in numbers]


def written(found: Sequence[tuple[int, list[Record]]]) -> list[bytes]:
    return [
        blocks.encode_block(KEY, number, [blocks.encode_record(one) for one in records]) for number, records in found
    ]


def over(segment: bytes, data: bytes, at: int = 0) -> bytes:
    return segment[:at] + data + segment[at + len(data) :]


def used(block: bytes) -> int:
    """Where the room begins that only fills the last block up."""
    ((_, records),) = blocks.read(block)
    return OVERHEAD_BYTES + sum(len(blocks.encode_record(one)) for one in records)


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_are_read_back_as_they_were_written(seed: int) -> None:
    dice = random.Random(seed)
    expected = some_blocks(dice, dice.randint(1, 1 << 40), dice.randint(1, 12))
    segment = b"".join(written(expected))
    assert list(blocks.read(segment)) == expected
    assert list(blocks.read(segment + bytes(dice.randint(0, 3 * ALIGN_BYTES)))) == expected


@pytest.mark.parametrize("size", [0, ALIGN_BYTES, 3 * ALIGN_BYTES, OVERHEAD_BYTES - 1])
def test_a_segment_that_was_never_written_has_no_blocks(size: int) -> None:
    assert list(blocks.read(bytes(size))) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_is_aligned_and_as_large_as_was_said(seed: int) -> None:
    dice = random.Random(seed)
    records = [blocks.encode_record(record(dice)) for _ in range(dice.randint(1, 8))]
    block = blocks.encode_block(KEY, 1, records)
    assert len(block) % ALIGN_BYTES == 0
    assert len(block) == blocks.size_of(sum(map(len, records)))


@pytest.mark.parametrize(("beyond", "count"), [(-1, 1), (0, 1), (1, 2)])
def test_a_block_is_no_longer_than_it_has_to_be(beyond: int, count: int) -> None:
    size = ALIGN_BYTES - OVERHEAD_BYTES + beyond
    assert blocks.size_of(size) == count * ALIGN_BYTES
    record = Record(SPACE, Hash(bytes(32)), Version(1), Version(1), [b""])
    filled = Record(
        SPACE, Hash(bytes(32)), Version(1), Version(1), [bytes(size - len(blocks.encode_record(record)) - 1)]
    )
    encoded = blocks.encode_record(filled)
    assert len(encoded) == size, "one byte more says how long so many bytes are"
    block = blocks.encode_block(KEY, 1, [encoded])
    assert len(block) == count * ALIGN_BYTES
    assert list(blocks.read(block)) == [(1, [filled])]


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_a_block_with_any_byte_changed_ends_the_reading_before_it(change: int) -> None:
    dice = random.Random(change)
    expected = [(7, [record(dice, 50)]), (8, [record(dice, 30), record(dice, 30)]), (9, [record(dice, 50)])]
    first, torn, last = written(expected)
    for at in range(used(torn)):
        changed = over(torn, bytes([torn[at] ^ change]), at)
        assert list(blocks.read(first + changed + last)) == expected[:1], f"byte {at}"
    assert list(blocks.read(first + torn + last)) == expected


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_of_which_any_sector_was_not_written_ends_the_reading_before_it(seed: int) -> None:
    """Nothing is there in its place, or what was there in an earlier pass."""
    dice = random.Random(seed)
    expected = some_blocks(dice, 100, 3)
    expected[1][1].append(record(dice, 3_000))
    first, torn, last = written(expected)
    stale = b"".join(written(some_blocks(dice, 1, 12))).ljust(len(torn), b"\1")
    for at in range(0, used(torn), SECTOR):
        for left in (bytes(SECTOR), stale[at : at + SECTOR]):
            image = over(torn, left, at)
            is_whole = image[: used(torn)] == torn[: used(torn)]
            assert list(blocks.read(first + image + last)) == (expected if is_whole else expected[:1])


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_segment_that_is_cut_anywhere_keeps_the_blocks_before_the_cut(seed: int) -> None:
    dice = random.Random(seed)
    expected = some_blocks(dice, 1, 6)
    wholes = written(expected)
    segment = b"".join(wholes)
    ends = [sum(map(len, wholes[:count])) + used(block) for count, block in enumerate(wholes)]
    for cut in [*range(0, len(segment), SECTOR), *ends, *(end - 1 for end in ends)]:
        assert list(blocks.read(segment[:cut])) == expected[: sum(end <= cut for end in ends)]


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_an_earlier_pass_are_not_read_behind_newer_ones(seed: int) -> None:
    dice = random.Random(seed)
    earlier = some_blocks(dice, 1, 12)
    segment = b"".join(written(earlier))
    newer: list[tuple[int, list[Record]]] = []
    at = 0
    for block in some_blocks(dice, 30, 8):  # other blocks went to the other segment meanwhile
        (data,) = written([block])
        segment = over(segment, data, at)
        newer.append(block)
        at += len(data)
        assert list(blocks.read(segment)) == newer


@pytest.mark.rule("STORE-1")
def test_a_stale_block_that_begins_where_a_newer_one_ends_is_not_read() -> None:
    dice = random.Random(0)
    earlier = [(number, [record(dice, 20)]) for number in range(1, 9)]
    newer = [(number, [record(dice, 20)]) for number in range(17, 20)]
    stale = written(earlier)
    assert {len(block) for block in stale} == {ALIGN_BYTES}
    assert list(blocks.read(b"".join(written(newer) + stale[3:]))) == newer
    torn = written(newer)
    torn[1] = bytes(ALIGN_BYTES)
    assert list(blocks.read(b"".join(torn + stale[3:]))) == newer[:1]


@pytest.mark.rule("STORE-1")
def test_a_block_of_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = some_blocks(random.Random(0), 1, 2)
    with monkeypatch.context() as another:
        another.setattr(blocks, "_MAGIC", b"StD9")
        segment = b"".join(written(found))
    with pytest.raises(StorageFailed, match="another version of StemmaDB"):
        list(blocks.read(segment))


def stale_behind(newer: Sequence[bytes], body: bytes) -> bytes:
    """Newer blocks, followed by the rest of a block of an earlier pass, whose body a user has chosen."""
    wanted, room = sum(map(len, newer)), 2 * ALIGN_BYTES

    def earlier() -> bytes:
        return blocks.encode_block(
            KEY,
            1,
            [blocks.encode_record(Record(SPACE, Hash(bytes(32)), Version(1), Version(1), [bytes(room) + body]))],
        )

    room += wanted - earlier().index(body)
    assert earlier().index(body) == wanted
    return over(earlier(), b"".join(newer))


@pytest.mark.rule("STORE-1")
def test_no_text_of_a_user_is_taken_for_a_block_of_another_format() -> None:
    dice = random.Random(0)
    newer = [(number, [record(dice, 20)]) for number in range(17, 20)]
    assert list(blocks.read(stale_behind(written(newer), b"StD9" * 3_000))) == newer


@pytest.mark.rule("STORE-1")
def test_no_bytes_of_a_user_are_taken_for_a_block() -> None:
    """A user who knows the number of blocks could write to any space, if the key of the group WAL were known."""
    dice = random.Random(0)
    newer = [(number, [record(dice, 20)]) for number in range(17, 20)]
    forged = blocks.encode_block(bytes(blocks.KEY_BYTES), 20, [blocks.encode_record(record(dice, 20))])
    assert list(blocks.read(stale_behind(written(newer), forged))) == newer
