"""The daybook: batches of many spaces become durable by one sync, and are in their files for whoever looks there."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daybooks import IDS, Account, AtOnce, HeldBack, clerk_of, in_file, volumes
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.model import chain
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import Did, Hash, TimeMs, Version
from stemmadb.server.storage.port import LogMoved, StorageFailed, StoredBlob, Told
from stemmadb.server.storage.sqlite import SqliteStorage, clerk, daybook_files
from stemmadb.server.storage.sqlite.daybook import RECORD_BYTES_MAX
from stemmadb.server.storage.sqlite.daybook_files import VolumeFile

VOLUME_BYTES = 32 * 1024
PAGES = 8
"""Small ones that fit into a volume."""
SECONDS_MAX = 20.0
PIECE = 48
"""A trace of a secret counts from this length on."""


def made(directory: Path, carrier: AtOnce) -> SqliteStorage:
    storage = SqliteStorage(directory, carrier=carrier, scrub_wait_ms=20)
    assert clerk_of(storage).make()
    return storage


def post(storage: SqliteStorage) -> None:
    """Looks until there is nothing to come back for: at first something has come since the last look."""
    assert any(not clerk_of(storage).look() for _ in range(clerk.LOOKS_MAX)), "the clerk finds no rest"


def after_kill(directory: Path, copy: Path, space: Did = SPACE) -> int:
    """What is found, verified, by a process that comes after this one was killed now."""
    shutil.copytree(directory, copy)
    storage = SqliteStorage(copy)
    log = storage.open(space)
    try:
        with log.reader() as reader:
            return max(one.version for one in chain.verify(space, reader.history()))
    finally:
        storage.close()
        shutil.rmtree(copy)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.fixture
def storage(directory: Path) -> Iterator[SqliteStorage]:
    directory.mkdir()
    storage = made(directory, AtOnce())
    yield storage
    storage.close()


@pytest.fixture
def held_back() -> HeldBack:
    return HeldBack()


@pytest.fixture
def holding(directory: Path, held_back: HeldBack) -> Iterator[SqliteStorage]:
    """A storage whose pages are held back."""
    directory.mkdir()
    storage = made(directory, held_back)
    yield storage
    storage.close()


@pytest.fixture
def _small_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daybook_files, "LOG_BYTES", 0)
    monkeypatch.setattr(daybook_files, "VOLUME_BYTES", VOLUME_BYTES)


# ---------------------------------------------------------------- durable, and to be seen


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("commits", [1, 3, 60])
def test_what_was_handed_over_is_seen_by_any_reader_once_that_is_told(
    directory: Path, holding: SqliteStorage, held_back: HeldBack, commits: int
) -> None:
    account = Account(holding)
    with account.log.reader() as before:
        assert account.hand_over(account.batch(commits=commits))
        assert account.told == []
        with account.log.reader() as reader:
            assert reader.tip().version == 1
        held_back.release()
        assert account.told == [None]
        assert in_file(directory) == 1, "it is in the file once somebody looks"
        account.check()
        assert in_file(directory) == account.version == 1 + commits
        assert before.tip().version == 1


@pytest.mark.rule("COMMIT-1")
def test_a_batch_is_durable_when_it_is_told_and_not_before(
    directory: Path, copy: Path, holding: SqliteStorage, held_back: HeldBack
) -> None:
    account = Account(holding)
    assert account.hand_over(account.batch())
    assert after_kill(directory, copy) == 1
    held_back.release()
    assert account.told == [None]
    assert after_kill(directory, copy) == 2
    assert in_file(directory) == 1


@pytest.mark.rule("COMMIT-1")
def test_batches_that_come_while_a_page_is_under_way_are_one_page(
    directory: Path, copy: Path, holding: SqliteStorage, held_back: HeldBack
) -> None:
    first, *others = [Account(holding, space) for space in (SPACE, ALICE, BOB)]
    assert first.hand_over(first.batch())
    assert all(other.hand_over(other.batch(commits=2)) for other in others)
    held_back.release()
    assert [account.told for account in (first, *others)] == [[None], [], []]
    assert first.hand_over(first.batch()), "which comes too late for the second page"
    held_back.release()
    assert [account.told for account in (first, *others)] == [[None], [None], [None]]
    assert held_back.carried == 2
    held_back.release()
    assert [account.told for account in (first, *others)] == [[None, None], [None], [None]]
    assert held_back.carried == 3
    assert [after_kill(directory, copy, account.space) for account in (first, *others)] == [3, 3, 3]
    for account in (first, *others):
        account.check()


def test_a_log_has_one_batch_under_way_at_a_time(holding: SqliteStorage, held_back: HeldBack) -> None:
    account = Account(holding)
    first, second = account.batch(), account.batch()
    assert account.hand_over(first)
    assert not account.hand_over(second)
    held_back.release()
    assert account.log.hand_over(Version(2), second, account.told.append)
    held_back.release()
    assert account.told == [None, None]
    account.check()


@pytest.mark.rule("COMMIT-1")
def test_a_log_of_many_pages_and_appends_is_whole(storage: SqliteStorage, directory: Path, copy: Path) -> None:
    account = Account(storage)
    for number in range(30):
        if number % 4:
            assert account.commit(number, commits=number % 5 + 1)
        else:
            batch = account.batch(number)
            account.log.append(Version(batch[0].commit.version - 1), batch)
        if number % 7 == 0:
            post(storage)
    assert after_kill(directory, copy) == account.version
    account.check()


# ---------------------------------------------------------------- refused


def test_rows_that_are_not_made_are_not_taken(storage: SqliteStorage) -> None:
    account = Account(storage)
    new = [account.maker.commit(set_("urn:new", 1, blind=True))]
    assert not account.hand_over(new)
    account.log.append(Version(1), new)
    structural = [account.maker.create_branch("b")]
    assert not account.hand_over(structural)
    account.log.append(Version(2), structural)
    unprepared = account.batch()
    assert not account.log.hand_over(Version(3), unprepared, account.told.append)
    account.log.append(Version(3), unprepared)
    assert account.told == []
    account.check()


def test_versions_that_do_not_follow_are_not_taken(storage: SqliteStorage) -> None:
    account = Account(storage)
    batch = account.batch()
    account.log.prepare(batch)
    for expected in (0, 2, 5):
        assert not account.log.hand_over(Version(expected), batch, account.told.append)
    assert account.log.hand_over(Version(1), batch, account.told.append)
    skipped, after = account.batch(), account.batch()
    account.log.prepare(after)
    assert not account.log.hand_over(Version(2), after, account.told.append), "one is missing before it"
    assert not account.log.hand_over(Version(3), after, account.told.append)
    with pytest.raises(LogMoved):
        account.log.append(Version(3), after)
    account.log.append(Version(2), [*skipped, *after])
    assert account.commit()
    account.check()


@pytest.mark.rule("COMMIT-1")
def test_a_batch_that_is_too_large_is_appended(storage: SqliteStorage) -> None:
    account = Account(storage)
    assert account.commit("x" * (RECORD_BYTES_MAX - 1_000))
    assert not account.commit("x" * RECORD_BYTES_MAX)
    assert account.told == [None]
    assert account.commit()
    account.check()


def test_nothing_is_taken_while_the_disk_has_little_room(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(storage)
    assert account.commit()
    with monkeypatch.context() as little:
        little.setattr(clerk, "ROOM_BYTES_MIN", 1 << 62)
        clerk_of(storage).look()
        assert not account.commit()
        assert not account.commit()
    clerk_of(storage).look()
    assert account.commit()
    account.check()


def test_there_is_no_daybook_where_the_disk_has_little_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir()
    storage = SqliteStorage(directory, carrier=AtOnce())
    account = Account(storage)
    with monkeypatch.context() as little:
        little.setattr(clerk, "ROOM_BYTES_MIN", 1 << 62)
        assert not clerk_of(storage).make()
        assert volumes(directory) == []
        assert not account.commit()
    assert clerk_of(storage).make()
    assert account.commit()
    account.check()
    storage.close()


# ---------------------------------------------------------------- posting


@pytest.mark.rule("COMMIT-1")
def test_whatever_is_written_to_the_file_comes_after_what_was_handed_over(
    storage: SqliteStorage, directory: Path
) -> None:
    account = Account(storage)
    log = account.log

    def put_blob() -> None:
        log.put_blob(StoredBlob(Hash(b"b" * 32), 4, "text/plain", TimeMs(1), in_file=False), b"blob")

    def append() -> None:
        batch = account.batch()
        log.append(Version(batch[0].commit.version - 1), batch)

    def keep() -> None:
        snapshot = account.maker.snapshot(account.maker.facts[-1])
        assert snapshot is not None
        log.keep([snapshot])

    for write in (put_blob, append, keep, log.drop_snapshots, log.scrub, lambda: log.append(account.version, [])):
        assert account.commit()
        assert in_file(directory) == account.version - 1
        write()
        assert in_file(directory) == account.version
    account.check()


@pytest.mark.rule("COMMIT-1")
def test_the_clerk_posts_in_a_quiet_moment_or_after_so_many_looks(storage: SqliteStorage, directory: Path) -> None:
    account = Account(storage)
    assert account.commit()
    assert clerk_of(storage).look(), "something has come, and more may follow"
    assert in_file(directory) == 1
    assert not clerk_of(storage).look()
    assert in_file(directory) == 2
    looks = 0
    while in_file(directory) == 2:
        assert account.commit()
        clerk_of(storage).look()
        looks += 1
        assert looks <= clerk.LOOKS_MAX
    assert looks > 1
    account.check()


@pytest.mark.rule("STORE-1")
def test_after_the_end_the_files_have_all_and_there_is_no_daybook(directory: Path) -> None:
    directory.mkdir()
    storage = made(directory, AtOnce())
    accounts = [Account(storage, space) for space in (SPACE, ALICE)]
    for account in accounts:
        assert account.commit()
        assert account.commit(commits=3)
    assert len(volumes(directory)) == 2
    storage.close()
    assert volumes(directory) == []
    assert [in_file(directory, account.space) for account in accounts] == [5, 5]


@pytest.mark.rule("STORE-1")
def test_a_log_that_is_closed_has_all_of_it_and_can_be_opened_again(storage: SqliteStorage, directory: Path) -> None:
    account = Account(storage)
    assert account.commit(commits=2)
    account.log.close()
    assert in_file(directory) == 3
    account.log = storage.open(SPACE)
    assert not account.commit(), "nothing of it is in memory"
    assert account.commit()
    account.check()


# ---------------------------------------------------------------- volumes


@pytest.mark.in_python
@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_volumes")
def test_a_full_volume_turns_over_and_is_free_once_the_clerk_has_looked(
    storage: SqliteStorage, directory: Path, copy: Path
) -> None:
    account = Account(storage)
    assert all(account.commit() for _ in range(2 * PAGES))
    assert in_file(directory) == 1
    assert after_kill(directory, copy) == account.version
    assert not account.commit(), "both are full"
    assert account.told == [None] * (2 * PAGES)
    assert account.version == in_file(directory), "it was appended, and what came before it was posted"
    assert not account.commit()
    clerk_of(storage).look()
    assert all(account.commit() for _ in range(PAGES))
    assert not account.commit()
    assert after_kill(directory, copy) == account.version
    account.check()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_volumes")
def test_whoever_is_killed_in_any_pass_has_lost_nothing(storage: SqliteStorage, directory: Path, copy: Path) -> None:
    accounts = [Account(storage, space) for space in (SPACE, ALICE)]
    for number in range(6 * PAGES):
        assert accounts[number % 3 == 0].commit(number, commits=number % 4 + 1)
        if number % 5 == 4:
            clerk_of(storage).look()
        assert [after_kill(directory, copy, one.space) for one in accounts] == [one.version for one in accounts]
    for account in accounts:
        account.check()


@pytest.mark.in_python
@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_volumes")
def test_a_page_that_does_not_fit_into_the_rest_of_a_volume_begins_the_other(
    storage: SqliteStorage, directory: Path, copy: Path
) -> None:
    account = Account(storage)
    assert account.commit("x" * (VOLUME_BYTES // 2))
    assert account.commit("y" * (VOLUME_BYTES // 2))
    assert not account.commit("z" * VOLUME_BYTES), "it fits into none"
    assert account.commit()
    assert after_kill(directory, copy) == account.version
    account.check()


@pytest.mark.rule("STORE-6")
def test_volumes_are_made_as_long_as_the_open_spaces_need(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daybook_files, "LOG_BYTES", VOLUME_BYTES)
    monkeypatch.setattr(daybook_files, "VOLUME_BYTES", VOLUME_BYTES)
    directory.mkdir()
    storage = SqliteStorage(directory, carrier=AtOnce())
    accounts = [Account(storage, space) for space in (SPACE, ALICE)]
    assert clerk_of(storage).make()
    assert [file.stat().st_size for file in volumes(directory)] == [2 * VOLUME_BYTES] * 2
    for account in accounts:
        assert account.commit()
        account.check()
    storage.close()


@pytest.mark.in_python
@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_volumes")
def test_volumes_of_many_spaces_grow(
    storage: SqliteStorage, directory: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daybook_files, "LOG_BYTES", VOLUME_BYTES)
    monkeypatch.setattr(daybook_files, "VOLUME_BYTES_MAX", 2 * VOLUME_BYTES)
    accounts = [Account(storage, space) for space in (SPACE, ALICE)]
    for number in range(12 * PAGES - 4):
        assert accounts[number % 2].commit(number)
        clerk_of(storage).look()
        if number % 3 == 0:
            assert [after_kill(directory, copy, one.space) for one in accounts] == [one.version for one in accounts]
    assert [file.stat().st_size for file in volumes(directory)] == [2 * VOLUME_BYTES] * 2
    taken = 0
    while accounts[0].commit():
        taken += 1
    assert 2 * PAGES < taken <= 4 * PAGES
    assert after_kill(directory, copy) == accounts[0].version
    for account in accounts:
        account.check()


@pytest.mark.in_python
@pytest.mark.rule("STORE-6")
@pytest.mark.usefixtures("_small_volumes")
def test_volumes_do_not_grow_where_the_disk_has_little_room(
    storage: SqliteStorage, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daybook_files, "LOG_BYTES", 2 * VOLUME_BYTES)
    monkeypatch.setattr(clerk, "VOLUME_BYTES_MAX", 1 << 62)
    account = Account(storage)
    for number in range(4 * PAGES):
        assert account.commit(number)
        clerk_of(storage).look()
    assert [file.stat().st_size for file in volumes(directory)] == [VOLUME_BYTES] * 2
    account.check()


# ---------------------------------------------------------------- erasure


def secret(name: str, size: int) -> str:
    """Text that nothing else in the files can look like, different in every part."""
    parts = (hashlib.sha256(f"{name} {number}".encode()).hexdigest() for number in range(size // 64 + 1))
    return "".join(parts)[:size]


def traces(files: list[Path], text: str) -> int:
    data = [file.read_bytes() for file in files if file.is_file()]
    pieces = [text[start : start + PIECE].encode() for start in range(0, len(text), PIECE)]
    return sum(any(piece in held for held in data) for piece in pieces)


@pytest.mark.rule("ERASE-1")
@pytest.mark.parametrize("size", [200, 3_000, 9_000])
@pytest.mark.usefixtures("_small_volumes")
def test_a_scrub_leaves_no_trace_in_any_file(storage: SqliteStorage, directory: Path, copy: Path, size: int) -> None:
    """Be it in a volume that is written, in one that is full, or behind what was written in a later pass."""
    account, other = Account(storage), Account(storage, ALICE)
    secrets = [secret(f"body {number}", size) for number in range(4)]
    versions = []
    for text in secrets:
        clerk_of(storage).look()
        assert account.commit(text)
        versions.append(account.version)
        while not account.commit("public"):
            clerk_of(storage).look()
    assert other.commit(secret("kept", 3_000))
    assert sum(traces(volumes(directory), text) for text in secrets) > 0
    erasure = [account.maker.erase(IDS[0], versions)]
    account.log.append(Version(account.version - 1), erasure)
    assert account.log.owes_scrub
    account.log.scrub()
    assert [traces(list(directory.rglob("*")), text) for text in secrets] == [0, 0, 0, 0]
    assert account.commit()
    assert other.commit()
    assert [after_kill(directory, copy, one.space) for one in (account, other)] == [account.version, other.version]
    account.check()
    other.check()


# ---------------------------------------------------------------- the clerk's thread


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.002)


@pytest.mark.rule("COMMIT-1")
def test_a_daybook_is_made_once_it_is_worth_it_and_posted_when_nothing_comes(directory: Path) -> None:
    directory.mkdir()
    storage = SqliteStorage(directory, carrier=AtOnce())
    account = Account(storage)
    assert not any(account.commit() for _ in range(clerk.WORTH_IT - 1))
    assert volumes(directory) == []
    wait_for(account.commit)
    wait_for(lambda: in_file(directory) == account.version)
    assert account.commit(), "which wakes the clerk again"
    wait_for(lambda: in_file(directory) == account.version)
    account.check()
    storage.close()
    assert volumes(directory) == []


# ---------------------------------------------------------------- between a page and the word of it


class Between(HeldBack):
    """Does something when a page takes off."""

    def __init__(self) -> None:
        super().__init__()
        self.on_carry: Callable[[], object] = int

    def carry(self, file: VolumeFile, page: bytes, at: int, told: Told) -> None:
        super().carry(file, page, at, told)
        self.on_carry()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.usefixtures("_small_volumes")
def test_a_volume_is_not_free_before_all_that_is_in_it_was_told(directory: Path, copy: Path) -> None:
    """The page that follows the last of a volume takes off, and the clerk looks, before anybody is told of that."""
    directory.mkdir()
    carrier = Between()
    storage = made(directory, carrier)
    account, other = Account(storage), Account(storage, ALICE)
    for _ in range(PAGES - 1):
        assert other.commit()
        carrier.release()
    assert account.commit()  # the last page of the volume
    assert other.commit()  # waits for it
    carrier.on_carry = clerk_of(storage).look
    carrier.release()
    assert account.told == [None]
    carrier.on_carry = int
    carrier.release()
    for _ in range(PAGES):  # fills the other volume, and begins the first anew
        assert other.commit()
        carrier.release()
    found = after_kill(directory, copy)
    storage.close()
    assert found == account.version, "an acknowledged batch is lost"


@pytest.mark.rule("COMMIT-1")
def test_a_scrub_does_not_forget_what_is_durable_and_not_told_yet(directory: Path, copy: Path) -> None:
    """A page of two spaces is durable; the first is told, another thread scrubs it, then the second is told."""
    directory.mkdir()
    carrier = HeldBack()
    storage = made(directory, carrier)
    first, account, third = [Account(storage, space) for space in (SPACE, ALICE, BOB)]
    assert third.commit()  # a page that the others wait for
    batch = first.batch()
    first.log.prepare(batch)

    def scrub(_: StorageFailed | None) -> None:
        thread = threading.Thread(target=first.log.scrub)
        thread.start()
        thread.join(SECONDS_MAX)

    assert first.log.hand_over(Version(1), batch, scrub)
    assert account.commit()
    carrier.release()
    carrier.release()
    assert account.told == [None]
    found = after_kill(directory, copy, ALICE)
    storage.close()
    assert found == account.version, "an acknowledged batch is lost"


@pytest.mark.rule("COMMIT-1")
def test_a_note_goes_with_its_commit(storage: SqliteStorage, directory: Path, copy: Path) -> None:
    account = Account(storage)
    batch = [account.maker.commit(set_(IDS[0], 5, blind=True), note=encode(["why", None]))]
    assert account.hand_over(batch)
    assert after_kill(directory, copy) == 2
    with account.log.reader() as reader:
        assert [commit.note for commit, _ in reader.history()] == [None, encode(["why", None])]
