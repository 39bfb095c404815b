"""Pages of a daybook: what was written is read back, and nothing that is torn, stale or of another pass is."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from space import ALICE, BOB, SPACE
from stemmadb.protocol.model.ids import Hash, Version
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import daybook_pages as pages
from stemmadb.server.storage.sqlite.connection import Cell
from stemmadb.server.storage.sqlite.daybook_pages import BLOCK, OVERHEAD_BYTES, Record

KEY = b"k" * pages.KEY_BYTES
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


def some_pages(dice: random.Random, first: int, count: int) -> list[tuple[int, list[Record]]]:
    numbers = range(first, first + count)
    return [(number, [record(dice) for _ in range(dice.randint(1, 5))]) for number in numbers]


def written(found: Sequence[tuple[int, list[Record]]]) -> list[bytes]:
    return [pages.page(KEY, number, [pages.encode(one) for one in records]) for number, records in found]


def over(volume: bytes, data: bytes, at: int = 0) -> bytes:
    return volume[:at] + data + volume[at + len(data) :]


def used(page: bytes) -> int:
    """Where the room begins that only fills the last block up."""
    ((_, records),) = pages.read(page)
    return OVERHEAD_BYTES + sum(len(pages.encode(one)) for one in records)


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_pages_are_read_back_as_they_were_written(seed: int) -> None:
    dice = random.Random(seed)
    expected = some_pages(dice, dice.randint(1, 1 << 40), dice.randint(1, 12))
    volume = b"".join(written(expected))
    assert list(pages.read(volume)) == expected
    assert list(pages.read(volume + bytes(dice.randint(0, 3 * BLOCK)))) == expected


@pytest.mark.parametrize("size", [0, BLOCK, 3 * BLOCK, OVERHEAD_BYTES - 1])
def test_a_volume_that_was_never_written_has_no_pages(size: int) -> None:
    assert list(pages.read(bytes(size))) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_takes_whole_blocks_and_as_many_as_was_said(seed: int) -> None:
    dice = random.Random(seed)
    records = [pages.encode(record(dice)) for _ in range(dice.randint(1, 8))]
    page = pages.page(KEY, 1, records)
    assert len(page) % BLOCK == 0
    assert len(page) == pages.size_of(sum(map(len, records)))


@pytest.mark.parametrize(("beyond", "blocks"), [(-1, 1), (0, 1), (1, 2)])
def test_a_page_is_no_longer_than_it_has_to_be(beyond: int, blocks: int) -> None:
    size = BLOCK - OVERHEAD_BYTES + beyond
    assert pages.size_of(size) == blocks * BLOCK
    record = Record(SPACE, Hash(bytes(32)), Version(1), Version(1), [b""])
    filled = Record(SPACE, Hash(bytes(32)), Version(1), Version(1), [bytes(size - len(pages.encode(record)) - 1)])
    encoded = pages.encode(filled)
    assert len(encoded) == size, "one byte more says how long so many bytes are"
    page = pages.page(KEY, 1, [encoded])
    assert len(page) == blocks * BLOCK
    assert list(pages.read(page)) == [(1, [filled])]


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_a_page_with_any_byte_changed_ends_the_reading_before_it(change: int) -> None:
    dice = random.Random(change)
    expected = [(7, [record(dice, 50)]), (8, [record(dice, 30), record(dice, 30)]), (9, [record(dice, 50)])]
    first, torn, last = written(expected)
    for at in range(used(torn)):
        changed = over(torn, bytes([torn[at] ^ change]), at)
        assert list(pages.read(first + changed + last)) == expected[:1], f"byte {at}"
    assert list(pages.read(first + torn + last)) == expected


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_of_which_any_sector_was_not_written_ends_the_reading_before_it(seed: int) -> None:
    """Nothing is there in its place, or what was there in an earlier pass."""
    dice = random.Random(seed)
    expected = some_pages(dice, 100, 3)
    expected[1][1].append(record(dice, 3_000))
    first, torn, last = written(expected)
    stale = b"".join(written(some_pages(dice, 1, 12))).ljust(len(torn), b"\1")
    for at in range(0, used(torn), SECTOR):
        for left in (bytes(SECTOR), stale[at : at + SECTOR]):
            image = over(torn, left, at)
            is_whole = image[: used(torn)] == torn[: used(torn)]
            assert list(pages.read(first + image + last)) == (expected if is_whole else expected[:1])


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_volume_that_is_cut_anywhere_keeps_the_pages_before_the_cut(seed: int) -> None:
    dice = random.Random(seed)
    expected = some_pages(dice, 1, 6)
    wholes = written(expected)
    volume = b"".join(wholes)
    ends = [sum(map(len, wholes[:count])) + used(page) for count, page in enumerate(wholes)]
    for cut in [*range(0, len(volume), SECTOR), *ends, *(end - 1 for end in ends)]:
        assert list(pages.read(volume[:cut])) == expected[: sum(end <= cut for end in ends)]


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_pages_of_an_earlier_pass_are_not_read_behind_newer_ones(seed: int) -> None:
    dice = random.Random(seed)
    earlier = some_pages(dice, 1, 12)
    volume = b"".join(written(earlier))
    newer: list[tuple[int, list[Record]]] = []
    at = 0
    for page in some_pages(dice, 30, 8):  # other pages went to the other volume meanwhile
        (data,) = written([page])
        volume = over(volume, data, at)
        newer.append(page)
        at += len(data)
        assert list(pages.read(volume)) == newer


@pytest.mark.rule("STORE-1")
def test_a_stale_page_that_begins_where_a_newer_one_ends_is_not_read() -> None:
    dice = random.Random(0)
    earlier = [(number, [record(dice, 20)]) for number in range(1, 9)]
    newer = [(number, [record(dice, 20)]) for number in range(17, 20)]
    blocks = written(earlier)
    assert {len(block) for block in blocks} == {BLOCK}
    assert list(pages.read(b"".join(written(newer) + blocks[3:]))) == newer
    torn = written(newer)
    torn[1] = bytes(BLOCK)
    assert list(pages.read(b"".join(torn + blocks[3:]))) == newer[:1]


@pytest.mark.rule("STORE-1")
def test_a_page_of_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = some_pages(random.Random(0), 1, 2)
    with monkeypatch.context() as another:
        another.setattr(pages, "_MAGIC", b"StD9")
        volume = b"".join(written(found))
    with pytest.raises(StorageFailed, match="another StemmaDB"):
        list(pages.read(volume))


def stale_behind(newer: Sequence[bytes], body: bytes) -> bytes:
    """Newer pages, and behind them what is left of a page of an earlier pass, the body as somebody has chosen it."""
    wanted, room = sum(map(len, newer)), 2 * BLOCK

    def earlier() -> bytes:
        return pages.page(
            KEY, 1, [pages.encode(Record(SPACE, Hash(bytes(32)), Version(1), Version(1), [bytes(room) + body]))]
        )

    room += wanted - earlier().index(body)
    assert earlier().index(body) == wanted
    return over(earlier(), b"".join(newer))


@pytest.mark.rule("STORE-1")
def test_no_text_of_a_user_is_taken_for_a_page_of_another_format() -> None:
    dice = random.Random(0)
    newer = [(number, [record(dice, 20)]) for number in range(17, 20)]
    assert list(pages.read(stale_behind(written(newer), b"StD9" * 3_000))) == newer


@pytest.mark.rule("STORE-1")
def test_no_bytes_of_a_user_are_taken_for_a_page() -> None:
    """Whoever knows how many pages there were could write to any space; the key of a daybook is known to nobody."""
    dice = random.Random(0)
    newer = [(number, [record(dice, 20)]) for number in range(17, 20)]
    forged = pages.page(bytes(pages.KEY_BYTES), 20, [pages.encode(record(dice, 20))])
    assert list(pages.read(stale_behind(written(newer), forged))) == newer
