"""The cache on disk when things go wrong: kills, power failures, changed bytes, full disks, other formats."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import journals
from journals import (
    PRINCIPAL,
    SPACE,
    cached_after,
    loaded,
    numbered,
    opened,
    secret,
    state_after,
    steps_in,
    with_cache,
    written,
)
from stemmadb.client.cache.records import CacheStep
from stemmadb.client.journal.disk import DiskJournal, journal_file
from stemmadb.client.journal.port import JournalStep
from stemmadb.protocol.errors import JournalFailed

PROGRAM = Path(journals.__file__)
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(PROGRAM.parent), *sys.path]),
    "STEMMADB_TEST_CACHE": "1",
}
STEPS = 30


def without_cache(directory: Path) -> Path:
    return journal_file(directory, space=SPACE, principal=PRINCIPAL)


async def filled(directory: Path, count: int = STEPS) -> None:
    journal = opened(directory, cache=True)
    journal.load()
    await written(journal, *map(with_cache, range(1, count + 1)))
    await journal.close()


def scan(directory: Path) -> bytes:
    """All bytes of all files of a journal."""
    return b"".join(file.read_bytes() for file in sorted(directory.iterdir()) if file.is_file())


def start(directory: Path, first: int, *more: int) -> subprocess.Popen[str]:
    words = [sys.executable, str(PROGRAM), str(directory), str(first), *map(str, more)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True)  # noqa: S603


@pytest.mark.rule("CACHE-1", "CACHE-2")
async def test_what_is_on_disk_is_the_fold_of_the_steps(tmp_path: Path) -> None:
    await filled(tmp_path)
    assert await loaded(tmp_path, cache=True) == cached_after(STEPS)
    assert (await loaded(tmp_path)).cache is None
    assert without_cache(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.rule("CACHE-2")
async def test_after_kill_9_journal_and_cache_are_of_the_same_step(tmp_path: Path) -> None:
    dice, count = random.Random(7), 0
    for _ in range(5):
        process = start(tmp_path, count + 1)
        assert process.stdout is not None
        last, wanted = count, count + dice.randint(1, 60)
        with process.stdout as lines:
            assert lines.readline() == "ready\n"
            for line in lines:
                if not line.endswith("\n"):
                    break
                last = int(line)
                if last == wanted:
                    process.kill()
        assert process.wait() == -signal.SIGKILL
        state = await loaded(tmp_path, cache=True)
        count = steps_in(state)
        assert count >= last
        assert state == cached_after(count)


@pytest.mark.rule("CACHE-2")
async def test_after_a_power_failure_a_prefix_of_the_steps_is_there(tmp_path: Path) -> None:
    first = tmp_path / "first"
    journal = opened(first, cache=True)
    journal.load()
    log, ends = journal.file.with_name(f"{journal.file.name}-wal"), [0]
    for number in range(1, STEPS + 1):
        await written(journal, with_cache(number))
        ends.append(log.stat().st_size)
    dice = random.Random(3)
    whole = log.read_bytes()
    sizes = [
        *ends,
        *(end - dice.randint(1, 4000) for end in ends[1:]),
        *(dice.randint(0, ends[-1]) for _ in range(20)),
    ]
    for attempt, size in enumerate(max(0, size) for size in sizes):
        found = tmp_path / str(attempt)
        shutil.copytree(first, found)
        rest = dice.choice([b"", bytes(len(whole) - size), dice.randbytes(len(whole) - size)])
        (found / log.name).write_bytes(whole[:size] + rest)
        durable = sum(end <= size for end in ends) - 1
        state = await loaded(found, cache=True)
        assert state == (cached_after(durable) if durable > 0 else state_after(0)), size
    await journal.close()


@pytest.mark.rule("CACHE-2")
async def test_a_changed_byte_in_a_row_of_the_cache_costs_the_cache_and_no_more(tmp_path: Path) -> None:
    """In any cell of any table; and then in any byte of the file, where the journal itself may be hit."""
    await filled(tmp_path / "good")
    good = cached_after(STEPS)
    cells = [
        (table, column)
        for table, columns in (
            ("cache_head", ("format", "record", "sum")),
            ("cache_watch", ("number", "record", "sum")),
            ("cache_member", ("watch", "id")),
            ("cache_entity", ("branch", "id", "record", "sum")),
        )
        for column in columns
    ]
    for table, column in cells:
        found = tmp_path / f"{table}-{column}"
        shutil.copytree(tmp_path / "good", found)
        with closing(sqlite3.connect(without_cache(found), isolation_level=None)) as connection:
            _spoil(connection, table, column)
        assert await loaded(found, cache=True) == msgspec.structs.replace(good, cache=None), (table, column)
        assert await _goes_on(found)


def _spoil(connection: sqlite3.Connection, table: str, column: str) -> None:
    (value,) = connection.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()  # noqa: S608
    changed = value + 1 if isinstance(value, int) else value[:-1] + (b"\x00" if isinstance(value, bytes) else "~")
    if changed == value:
        changed = value[:-1] + b"\x01"
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (changed, value))  # noqa: S608


async def _goes_on(directory: Path) -> bool:
    """Whether the journal, and a cache that begins anew, can be written."""
    journal = opened(directory, cache=True)
    journal.load()
    step = with_cache(STEPS + 1)
    assert step.cache is not None
    anew = msgspec.structs.replace(step.cache, leave=(), remove=(), clear=True)
    told = await written(journal, msgspec.structs.replace(step, cache=anew))
    await journal.close()
    state = await loaded(directory, cache=True)
    return told == [None] and state.cache is not None and len(state.cache.entities) == 1


@pytest.mark.rule("CACHE-2")
async def test_a_changed_byte_anywhere_never_shows_a_wrong_value(tmp_path: Path) -> None:
    await filled(tmp_path / "good")
    good = cached_after(STEPS)
    bare = msgspec.structs.replace(good, cache=None)
    content, dice = without_cache(tmp_path / "good").read_bytes(), random.Random(5)
    dropped = 0
    for attempt in range(120):
        file = without_cache(tmp_path / str(attempt))
        file.parent.mkdir()
        at = dice.randrange(100, len(content))
        file.write_bytes(content[:at] + bytes([content[at] ^ dice.randint(1, 255)]) + content[at + 1 :])
        try:
            state = await loaded(file.parent, cache=True)
        except JournalFailed:
            continue
        assert state in (good, bare), at
        dropped += state == bare
        assert await _goes_on(file.parent), at
    assert dropped


class Careless(sqlite3.Connection):
    """A SQLite that was built to leave deleted bytes where they are."""

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__(*values, **options)
        self.execute("PRAGMA secure_delete = OFF")


@pytest.mark.rule("CACHE-4")
async def test_what_was_removed_overwritten_or_cleared_leaves_no_byte(tmp_path: Path) -> None:
    journal = opened(tmp_path, factory=Careless, cache=True)
    journal.load()
    await written(journal, *map(with_cache, range(1, STEPS + 1)))
    assert secret(STEPS).encode() in scan(tmp_path)
    step = with_cache(STEPS + 1)
    assert step.cache is not None
    await written(journal, JournalStep(standing=step.standing, cache=msgspec.structs.replace(step.cache, scrub=True)))
    assert secret(1).encode() not in scan(tmp_path), "what went before a step that scrubs"
    assert secret(STEPS).encode() in scan(tmp_path)
    assert await written(journal, JournalStep(cache=CacheStep(clear=True, scrub=True))) == [None]
    assert b"secret-" not in scan(tmp_path)
    await journal.close()
    assert b"secret-" not in scan(tmp_path)


class Full(sqlite3.Connection):
    """A disk on which a write fails for want of room: the `at`-th statement that writes a cache."""

    at = 0
    is_full = False

    def _count(self, sql: str) -> None:
        if "cache_" in sql and not sql.startswith(("SELECT", "PRAGMA", "CREATE")) and Full.is_full:
            Full.at -= 1
            if Full.at < 0:
                raise sqlite3.OperationalError("database or disk is full")

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        self._count(sql)
        return super().execute(sql, *values)  # type: ignore[arg-type]

    def executemany(self, sql: str, values: object) -> sqlite3.Cursor:
        self._count(sql)
        return super().executemany(sql, values)  # type: ignore[arg-type]


@pytest.fixture
def full() -> Iterator[type[Full]]:
    Full.at, Full.is_full = 0, False
    yield Full
    Full.is_full = False


@pytest.mark.rule("CACHE-5")
@pytest.mark.parametrize("at", range(6))
async def test_a_full_disk_turns_the_cache_off_and_the_journal_goes_on(
    at: int, full: type[Full], tmp_path: Path
) -> None:
    journal = opened(tmp_path, factory=full, cache=True)
    journal.load()
    await written(journal, *map(with_cache, range(1, 6)))
    full.at, full.is_full = at, True
    assert await written(journal, with_cache(6)) == [None]
    assert journal.is_cache_full
    assert await written(journal, with_cache(7)) == [None]
    await journal.close()
    state = await loaded(tmp_path, cache=True)
    assert msgspec.structs.replace(state, cache=None) == state_after(7)
    assert state.cache is not None
    assert state.cache.head.to < 7, "it is older than the journal, so nobody uses it"


@pytest.mark.rule("CACHE-5")
async def test_on_a_disk_that_takes_nothing_the_journal_fails_as_before(tmp_path: Path) -> None:
    process = start(tmp_path, 1, 400_000)
    assert process.stdout is not None
    with process.stdout as lines:
        told = lines.read().split("\n")[1:-1]
    assert process.wait() == 0
    good = [int(line) for line in told if not line.startswith("failed")]
    assert good == list(range(1, len(good) + 1))
    assert told[len(good)].startswith("failed")
    state = await loaded(tmp_path, cache=True)
    assert msgspec.structs.replace(state, cache=None) == state_after(len(good))


@pytest.mark.rule("CACHE-1")
async def test_a_cache_of_another_format_is_dropped_and_the_journal_is_not(tmp_path: Path) -> None:
    await filled(tmp_path)
    with closing(sqlite3.connect(without_cache(tmp_path), isolation_level=None)) as connection:
        connection.execute("UPDATE cache_head SET format = 99")
    assert await loaded(tmp_path, cache=True) == state_after(STEPS)


@pytest.mark.rule("CACHE-1")
async def test_an_old_file_gets_a_cache_and_old_code_reads_a_file_with_one(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await written(journal, *map(numbered, range(1, 4)))
    await journal.close()
    assert await loaded(tmp_path, cache=True) == state_after(3), "an old file, newer code"
    journal = opened(tmp_path, cache=True)
    journal.load()
    step = with_cache(4)
    await written(journal, step)
    await journal.close()
    journal = opened(tmp_path)  # as code without a cache: it writes the journal alone
    await written(journal, numbered(5))
    await journal.close()
    state = await loaded(tmp_path, cache=True)
    assert state.standing is not None
    assert state.cache is not None
    assert state.cache.head.to < state.standing[0]


@pytest.mark.rule("CACHE-1")
async def test_the_file_of_another_principal_is_not_taken(tmp_path: Path) -> None:
    await filled(tmp_path)
    other = journal_file(tmp_path, space=SPACE, principal=SPACE)
    without_cache(tmp_path).rename(other)
    with pytest.raises(JournalFailed, match="it belongs to"):
        DiskJournal(tmp_path, space=SPACE, principal=SPACE, cache=True)
