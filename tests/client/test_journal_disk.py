"""The journal on disk: what is written is there again, in order, for one user at a time."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from journals import (
    PRINCIPAL,
    SESSION,
    SPACE,
    base,
    confirmed,
    journaled,
    loaded,
    name,
    numbered,
    opened,
    random_steps,
    rejected,
    state_after,
    written,
)
from stemmadb.client.journal.contents import BASE_BYTES_MAX, JournalContents
from stemmadb.client.journal.disk import DiskJournal, journal_file
from stemmadb.client.journal.port import Journal, JournalState, JournalStep
from stemmadb.protocol.errors import DirectoryHeld
from stemmadb.protocol.model.values.ids import Did, Version


@pytest.mark.rule("NURSERY-5")
@pytest.mark.parametrize("seed", range(12))
async def test_what_was_written_is_found_by_the_next_one(seed: int, tmp_path: Path) -> None:
    contents = JournalContents()
    steps = random_steps(seed, 60)
    for at in range(0, len(steps), 20):
        journal = opened(tmp_path)
        assert journal.load() == contents.state()
        assert await written(journal, *steps[at : at + 20]) == [None] * 20
        await journal.close()
        for step in steps[at : at + 20]:
            contents.take(step)
    assert await loaded(tmp_path) == contents.state()


async def test_a_new_journal_is_empty_and_promises_to_keep(tmp_path: Path) -> None:
    journal: Journal = opened(tmp_path / "new" / "journal")
    assert journal.keeps
    assert journal.load() == JournalState()
    await journal.close()


@pytest.mark.rule("NURSERY-5")
async def test_steps_that_arrive_during_a_sync_share_the_next(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert await written(journal, *map(numbered, range(1, 201))) == [None] * 200
    assert 1 <= journal.syncs <= 20
    await written(journal, numbered(201))
    alone = journal.syncs
    await written(journal, numbered(202))
    assert journal.syncs == alone + 1
    await journal.close()
    assert await loaded(tmp_path) == state_after(202)


async def test_done_is_told_in_order_on_the_event_loop(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    told: list[tuple[int, int]] = []
    for number in range(1, 51):
        journal.write(numbered(number), lambda _, number=number: told.append((number, threading.get_ident())))  # type: ignore[misc]
    assert told == []
    await journal.close()
    assert told == [(number, threading.get_ident()) for number in range(1, 51)]


async def test_one_who_raises_when_told_keeps_nobody_else_from_being_told(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: seen.append(what["exception"]))
    raised = ValueError("not ours")

    def raises(error: Exception | None) -> None:
        raise raised

    told: list[Exception | None] = []
    journal.write(numbered(1), raises)
    journal.write(numbered(2), told.append)
    await journal.close()
    assert (seen, told) == ([raised], [None])


async def test_closing_waits_for_what_was_written_and_may_be_done_twice(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    told: list[Exception | None] = []
    for number in range(1, 101):
        journal.write(numbered(number), told.append)
    await asyncio.gather(journal.close(), journal.close())
    assert told == [None] * 100
    await journal.close()
    assert await loaded(tmp_path) == state_after(100)


async def test_a_closing_that_is_cancelled_goes_on(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.write(numbered(1), lambda _: None)
    closing = asyncio.create_task(journal.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await journal.close()
    assert await loaded(tmp_path) == state_after(1)


@pytest.mark.rule("COMMIT-5")
async def test_a_local_is_remembered_when_its_commit_is_decided_and_anew_in_each_session(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await written(
        journal,
        JournalStep(session=SESSION, add=(journaled(7),)),
        JournalStep(confirm=(confirmed(7),)),
        JournalStep(session=SESSION),
    )
    await journal.close()
    state = await loaded(tmp_path)
    assert (state.last_local, state.pending) == (7, ())
    journal = opened(tmp_path)
    await written(
        journal,
        JournalStep(add=(journaled(8),)),
        JournalStep(session=b"t" * 16),
        JournalStep(add=(journaled(9),)),  # an older session's: it does not count in the new one
    )
    await journal.close()
    state = await loaded(tmp_path)
    assert (state.session, state.last_local) == (b"t" * 16, 0)
    assert [commit.name for commit in state.pending] == [name(8), name(9)]


@pytest.mark.rule("RESUME-4")
async def test_confirmed_commits_are_kept_in_their_order_until_they_are_forgotten(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    steps = [JournalStep(confirm=(confirmed(local),)) for local in range(1, 51)]
    await written(journal, *steps, JournalStep(forget=(name(40), name(45))), JournalStep(confirm=(confirmed(51),)))
    await journal.close()
    left = [local for local in range(1, 52) if local not in (40, 45)]
    assert [commit.name.local for commit in (await loaded(tmp_path)).confirmed] == left
    journal = opened(tmp_path)
    await written(journal, *(JournalStep(confirm=(confirmed(local),)) for local in (52, 53, 33)))
    await journal.close()
    found = [commit.name.local for commit in (await loaded(tmp_path)).confirmed]
    assert found == [local for local in left if local != 33] + [52, 53, 33]


@pytest.mark.rule("NURSERY-5")
async def test_a_rejected_commit_stays_whole_until_it_is_dropped(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    await written(
        journal,
        JournalStep(add=(journaled(1), journaled(2))),
        JournalStep(reject=(rejected(1), rejected(2))),
        JournalStep(reject=(rejected(1, message="again"),)),
    )
    await journal.close()
    state = await loaded(tmp_path)
    assert state.pending == ()
    assert state.rejected == (rejected(2), rejected(1, message="again"))
    journal = opened(tmp_path)
    await written(journal, JournalStep(drop=(name(2),)), JournalStep(drop=(name(99),)))
    await journal.close()
    assert (await loaded(tmp_path)).rejected == (rejected(1, message="again"),)


async def test_a_base_is_there_once_as_long_as_a_pending_commit_names_it(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    big = b"x" * BASE_BYTES_MAX
    commits = [journaled(local, base(1, as_of=local, body=big), base(2, body=None)) for local in range(1, 41)]
    await written(journal, JournalStep(add=tuple(commits)))
    await journal.close()
    assert journal.file.stat().st_size < 3 * BASE_BYTES_MAX
    found = (await loaded(tmp_path)).pending
    assert found == tuple(commits)
    assert len({id(commit.bases[0].body) for commit in found}) == 1
    journal = opened(tmp_path)
    await written(journal, JournalStep(confirm=tuple(confirmed(local) for local in range(1, 40))))
    assert _bases(journal) == 2
    await written(journal, JournalStep(reject=(rejected(40),)))
    assert _bases(journal) == 0
    await journal.close()


def _bases(journal: DiskJournal) -> int:
    ((count,),) = journal._database._connection.execute("SELECT count(*) FROM bases")
    assert isinstance(count, int)
    return count


async def test_a_base_that_is_too_large_is_left_out_and_the_others_are_not(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    commit = journaled(1, base(1), base(2, body=b"x" * (BASE_BYTES_MAX + 1)), base(3))
    await written(journal, JournalStep(add=(commit,)))
    await journal.close()
    assert (await loaded(tmp_path)).pending == (journaled(1, base(1), base(3)),)


async def test_the_second_one_is_told_who_holds_it_also_in_the_same_process(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(DirectoryHeld) as held:
        opened(tmp_path)
    assert held.value.facts == {"directory": str(tmp_path), "holder": "this process"}
    code = f"from journals import opened; from pathlib import Path; opened(Path({str(tmp_path)!r}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], env=environment, capture_output=True, check=False
    )
    assert f"in use by another process (process {os.getpid()})" in done.stderr.decode()
    await written(journal, numbered(1))
    await journal.close()
    assert await loaded(tmp_path) == state_after(1)


async def test_principals_and_spaces_share_a_directory_without_meeting(tmp_path: Path) -> None:
    journals = [
        opened(tmp_path),
        DiskJournal(tmp_path, space=PRINCIPAL, principal=PRINCIPAL),
        DiskJournal(tmp_path, space=SPACE, principal=SPACE),
    ]
    for number, journal in enumerate(journals, 1):
        await written(journal, JournalStep(session=bytes([number]) * 16))
    assert [journal.load().session for journal in journals] == [bytes([number]) * 16 for number in (1, 2, 3)]
    for journal in journals:
        await journal.close()


async def test_only_the_user_can_read_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    before = os.umask(0)
    try:
        journal = opened(directory)
        await written(journal, numbered(1))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    file = journal_file(directory, space=SPACE, principal=PRINCIPAL).name
    assert modes == {file: 0o600, f"{file}-wal": 0o600, f"{file}.lock": 0o600}
    await journal.close()


@pytest.mark.rule("NURSERY-5")
async def test_a_copy_of_the_directory_opens_while_the_first_is_in_use(tmp_path: Path) -> None:
    journal = opened(tmp_path / "first")
    await written(journal, *map(numbered, range(1, 31)))
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    assert await loaded(tmp_path / "second") == state_after(30)
    await written(journal, numbered(31))
    await journal.close()


async def test_a_commit_is_not_kept_twice(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    (_, error) = await written(journal, JournalStep(add=(journaled(1),)), JournalStep(add=(journaled(1),)))
    assert error is not None
    await journal.close()


async def test_the_write_ahead_log_stays_short(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for first in range(1, 200, 10):
        large = (journaled(local, size=60_000) for local in range(first, first + 10))
        await written(journal, *(JournalStep(add=(commit,)) for commit in large))
    log = journal.file.with_name(f"{journal.file.name}-wal")
    assert log.stat().st_size < 8_000_000
    assert journal.file.stat().st_size > 4_000_000
    await journal.close()
    assert not log.exists()
    assert len((await loaded(tmp_path)).pending) == 200


async def test_ten_thousand_pending_commits_open_quickly_and_make_no_step_slower(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    commits = tuple(journaled(local, base(1), size=300) for local in range(1, 10_001))
    await written(journal, JournalStep(session=SESSION, add=commits, standing=(Version(9), base(1).hash)))
    await journal.close()
    began = time.monotonic()
    journal = opened(tmp_path)
    state = journal.load()
    assert time.monotonic() - began < 5, "it takes a tenth of a second"
    assert state.pending == commits
    at = _work(journal)
    await written(journal, JournalStep(add=(journaled(10_001, base(1)),)), JournalStep(confirm=(confirmed(5_000),)))
    assert _work(journal) - at < 2_000, "steps of SQLite's machine: they do not grow with what is pending"
    await journal.close()


def _work(journal: DiskJournal) -> int:
    """Counts what SQLite does from the first call on."""
    counter = getattr(journal, "_test_counter", None)
    if counter is None:
        counter = [0]

        def count() -> int:
            counter[0] += 1
            return 0

        journal.__dict__["_test_counter"] = counter
        journal._database._connection.set_progress_handler(count, 1)
    assert isinstance(counter, list)
    return int(counter[0])


def test_the_name_of_a_file_can_be_used_on_every_system() -> None:
    file = journal_file(Path("x"), space=SPACE, principal=Did(PRINCIPAL))
    assert not set(file.name) & set(':/\\*?"<>|')
    assert SPACE[len("did:key:") :] in file.name
    assert PRINCIPAL[len("did:key:") :] in file.name
