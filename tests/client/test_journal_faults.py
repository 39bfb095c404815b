"""The journal when things go wrong: kills, power failures, full disks, failing syncs, files that are not ours."""

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

import pytest

import journals
from journals import (
    PRINCIPAL,
    SPACE,
    Failing,
    base,
    journaled,
    loaded,
    numbered,
    opened,
    random_steps,
    rejected,
    state_after,
    steps_in,
    written,
)
from stemmadb.client.journal import schema
from stemmadb.client.journal.disk import DiskJournal, journal_file
from stemmadb.client.journal.port import JournalStep
from stemmadb.protocol.errors import JournalFailed, NewerStorage

PROGRAM = Path(journals.__file__)
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAM.parent), *sys.path])}


def start(directory: Path, first: int, *more: int) -> subprocess.Popen[str]:
    words = [sys.executable, str(PROGRAM), str(directory), str(first), *map(str, more)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True)  # noqa: S603


def heard_until_killed(directory: Path, first: int, count: int) -> int:
    """The last step that was told durable before a kill, which comes after so many were."""
    process = start(directory, first)
    assert process.stdout is not None
    last = first - 1
    with process.stdout as lines:
        assert lines.readline() == "ready\n"
        for line in lines:
            if not line.endswith("\n"):
                break  # torn by the kill
            last = int(line)
            if last - first + 1 == count:
                process.kill()
    assert process.wait() == -signal.SIGKILL
    return last


@pytest.mark.rule("NURSERY-5", "NURSERY-7")
async def test_what_was_told_before_a_kill_is_there_and_nothing_is_half(tmp_path: Path) -> None:
    dice = random.Random(7)
    count = 0
    for _ in range(12):
        last = heard_until_killed(tmp_path, count + 1, dice.randint(1, 150))
        state = await loaded(tmp_path)
        count = steps_in(state)
        assert count >= last
        assert state == state_after(count)


@pytest.mark.rule("NURSERY-7")
async def test_on_a_full_disk_steps_fail_and_are_not_there_afterwards(tmp_path: Path) -> None:
    process = start(tmp_path, 1, 300_000)
    assert process.stdout is not None
    with process.stdout as lines:
        told = lines.read().split("\n")[1:-1]
    assert process.wait() == 0
    good = [int(line) for line in told if not line.startswith("failed")]
    assert good == list(range(1, len(good) + 1))
    assert told[len(good)].startswith("failed")
    assert len(told) > len(good) + 1, "the ones that followed failed as well"
    assert all(line.startswith("failed") for line in told[len(good) :])
    assert await loaded(tmp_path) == state_after(len(good))


@pytest.fixture
def failing() -> Iterator[type[Failing]]:
    Failing.is_broken = False
    yield Failing
    Failing.is_broken = False


@pytest.mark.rule("NURSERY-7")
async def test_after_a_failed_sync_every_step_fails_and_none_comes_back(
    failing: type[Failing], tmp_path: Path
) -> None:
    journal = opened(tmp_path, factory=failing)
    await written(journal, *map(numbered, range(1, 6)))
    failing.is_broken = True
    errors = await written(journal, numbered(6), numbered(7))
    failing.is_broken = False
    errors += await written(journal, numbered(8))
    assert [str(error) for error in errors] == [
        f"The journal {str(journal.file)!r} cannot be written: disk I/O error. "
        "Free some disk space or check the disk, then connect again."
    ] * 3
    assert all(isinstance(error, JournalFailed) for error in errors)
    assert len({id(error) for error in errors}) == 3
    syncs = journal.syncs
    shutil.copytree(tmp_path, tmp_path / "as after a kill")
    await journal.close()
    assert journal.syncs == syncs == 1
    assert await loaded(tmp_path / "as after a kill") == state_after(5)
    assert await loaded(tmp_path) == state_after(5)


@pytest.mark.rule("NURSERY-7")
async def test_a_failed_sync_right_after_the_log_was_emptied_leaves_nothing_either(
    failing: type[Failing], tmp_path: Path
) -> None:
    journal = opened(tmp_path, factory=failing)
    large = JournalStep(add=tuple(journaled(local, size=500_000) for local in range(1, 11)))
    await written(journal, large)
    failing.is_broken = True
    (error,) = await written(journal, JournalStep(add=(journaled(11),)))
    assert isinstance(error, JournalFailed)
    shutil.copytree(tmp_path, tmp_path / "as after a kill")
    await journal.close()
    assert (await loaded(tmp_path / "as after a kill")).pending == large.add


async def test_each_sync_reaches_the_disk_before_it_is_told(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for setting, wanted in (("synchronous", 2), ("journal_mode", "wal"), ("fullfsync", 1)):
        assert journal._database._connection.execute(f"PRAGMA {setting}").fetchone() == (wanted,)
    await journal.close()


async def test_a_log_that_was_left_is_written_and_synced_again_before_it_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path / "first")
    await written(journal, *map(numbered, range(1, 6)))
    shutil.copytree(tmp_path / "first", tmp_path / "left")
    await journal.close()
    log = tmp_path / "left" / f"{journal.file.name}-wal"
    before, inode, synced = log.read_bytes(), log.stat().st_ino, list[bytes]()
    sync = os.fsync

    def spy(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == inode:
            synced.append(log.read_bytes())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    assert await loaded(tmp_path / "left") == state_after(5)
    assert synced == [before]


async def test_a_log_that_cannot_be_moved_loses_nothing_and_ends_the_journal(tmp_path: Path) -> None:
    journal = opened(tmp_path, factory=_Immovable)
    large = JournalStep(add=tuple(journaled(local, size=500_000) for local in range(1, 11)))
    assert await written(journal, large) == [None]
    (error,) = await written(journal, numbered(50))
    assert isinstance(error, JournalFailed)
    await journal.close()
    assert (await loaded(tmp_path)).pending == large.add


class _Immovable(sqlite3.Connection):
    """Nothing in its log can be moved, once it is open."""

    seen = 0

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        self.seen += "wal_checkpoint" in sql
        if self.seen > 1:
            self.seen = 1
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *values)  # type: ignore[arg-type]


@pytest.mark.rule("NURSERY-5")
async def test_after_a_power_failure_a_prefix_of_the_steps_is_there(tmp_path: Path) -> None:
    first = tmp_path / "first"
    journal = opened(first)
    ends = []
    log = journal.file.with_name(f"{journal.file.name}-wal")
    for number in range(1, 31):
        await written(journal, numbered(number))
        ends.append(log.stat().st_size)
    dice = random.Random(3)
    for attempt in range(40):
        found = tmp_path / str(attempt)
        shutil.copytree(first, found)
        size = dice.randint(0, ends[-1])
        durable = sum(end <= size for end in ends)
        _tear(found / log.name, size, dice)
        assert await loaded(found) == state_after(durable)
    await journal.close()


def _tear(log: Path, size: int, dice: random.Random) -> None:
    """What follows is not on the disk, or is something else."""
    whole = log.read_bytes()
    log.write_bytes(whole[:size] + dice.choice([b"", bytes(len(whole) - size), dice.randbytes(len(whole) - size)]))


@pytest.mark.rule("NURSERY-7")
async def test_a_byte_that_has_changed_is_noticed_or_means_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "good")
    await written(journal, *random_steps(1, 60), JournalStep(add=(journaled(9_999, base(3, body=b"x" * 9_000)),)))
    await journal.close()
    state = await loaded(tmp_path / "good")
    content = journal.file.read_bytes()
    decide = JournalStep(reject=tuple(rejected(commit.name.local, commit.name.session) for commit in state.pending))
    dice = random.Random(5)
    noticed = 0
    for attempt in range(120):
        file = tmp_path / str(attempt) / journal.file.name
        file.parent.mkdir()
        at = dice.randrange(100, len(content))
        changed = content[:at] + bytes([content[at] ^ dice.randint(1, 255)]) + content[at + 1 :]
        file.write_bytes(changed)
        try:
            assert await loaded(file.parent) == state, at
            assert await decided(file.parent, decide), at
        except JournalFailed:
            noticed += 1
    assert noticed > 20


async def decided(directory: Path, step: JournalStep) -> bool:
    """Takes a step and says whether nothing is pending afterwards."""
    journal = opened(directory)
    journal.load()
    told = await written(journal, step)
    await journal.close()
    return told == [None] and (await loaded(directory)).pending == ()


@pytest.mark.parametrize("what", ["nothing", "garbage", "another database", "half", "headless"])
async def test_a_file_that_is_no_journal_is_named_and_left_alone(what: str, tmp_path: Path) -> None:
    file = journal_file(tmp_path, space=SPACE, principal=PRINCIPAL)
    await _make(what, file)
    before = file.read_bytes()
    with pytest.raises(JournalFailed) as failed:
        await loaded(tmp_path)
    assert str(file) in failed.value.message
    assert "move it away" in failed.value.message
    assert file.read_bytes() == before
    file.unlink()
    assert (await loaded(tmp_path)).session is None, "and the lock was let go"


async def _make(what: str, file: Path) -> None:
    if what in ("nothing", "garbage"):
        file.write_bytes(b"" if what == "nothing" else random.Random(1).randbytes(9_000))
    elif what == "another database":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
    else:
        journal = opened(file.parent)
        await written(journal, *random_steps(1, 60))
        await journal.close()
        if what == "half":
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        else:
            _change(file, "DELETE FROM head")


def _change(file: Path, sql: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(sql)


async def test_a_commit_in_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await written(journal, JournalStep(add=(journaled(1),)))
    await journal.close()
    _change(journal.file, "UPDATE pending SET local = 2")
    with pytest.raises(JournalFailed, match="another's place"):
        await loaded(tmp_path)


async def test_a_commit_is_not_lost_with_a_base_that_is(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await written(journal, JournalStep(add=(journaled(1, base(1)),)))
    await journal.close()
    _change(journal.file, "DELETE FROM bases")
    assert (await loaded(tmp_path)).pending == (journaled(1),)


async def test_a_newer_journal_is_left_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await journal.close()
    _change(journal.file, f"PRAGMA user_version = {schema.SCHEMA + 1}")
    before = journal.file.read_bytes()
    with pytest.raises(NewerStorage) as newer:
        opened(tmp_path)
    assert newer.value.facts == {"file": str(journal.file), "found": 2, "known": 1}
    assert journal.file.read_bytes() == before


async def test_the_journal_of_another_is_not_taken(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await journal.close()
    other = journal_file(tmp_path, space=SPACE, principal=SPACE)
    journal.file.rename(other)
    with pytest.raises(JournalFailed, match=f"it belongs to {PRINCIPAL} in the space {SPACE}"):
        DiskJournal(tmp_path, space=SPACE, principal=SPACE)


async def test_a_crash_while_a_journal_was_made_is_nothing(tmp_path: Path) -> None:
    file = journal_file(tmp_path, space=SPACE, principal=PRINCIPAL)
    for left in (".new", ".new-journal", ".new-wal"):
        file.with_name(file.name + left).write_bytes(b"half")
    journal = opened(tmp_path)
    assert await written(journal, numbered(1)) == [None]
    await journal.close()
    assert sorted(found.name for found in tmp_path.iterdir()) == [file.name, f"{file.name}.lock"]


async def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    with pytest.raises(JournalFailed, match=str(file)):
        opened(file)
    with pytest.raises(JournalFailed, match=str(file)):
        opened(file / "below")
    journal_file(tmp_path, space=SPACE, principal=PRINCIPAL).mkdir()
    with pytest.raises(JournalFailed, match="Is a directory"):
        opened(tmp_path)


async def test_another_program_that_reads_the_file_is_reported(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await journal.close()
    with closing(sqlite3.connect(journal.file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM head").fetchall()
        with pytest.raises(JournalFailed, match="database is locked"):
            opened(tmp_path)
    assert (await loaded(tmp_path)).session is None
