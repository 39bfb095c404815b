"""A daybook that a killed process left, and one that another process still writes: nothing acknowledged is missed."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from daybooks import IDS, Account, AtOnce, file_of, in_file, volumes
from logs import LogMaker
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model import chain
from stemmadb.protocol.model.ids import Did, Version
from stemmadb.server.storage import directory as directories
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage, daybook_waiting
from stemmadb.server.storage.sqlite import storage as storage_module
from stemmadb.server.storage.sqlite.clerk import WORTH_IT
from stemmadb.server.storage.sqlite.storage import FILE

SECONDS_MAX = 20.0
PRIVATE = "a private text that nothing else in any file looks like"


def verified(log: SqliteLog) -> int:
    with log.reader() as reader:
        version = max(one.version for one in chain.verify(log.space, reader.history()))
    assert log.integrity() == []
    return version


def look(storage: SqliteStorage) -> bool:
    assert storage.clerk is not None
    return storage.clerk.look()


def holds(directory: Path, text: str) -> list[str]:
    """The names of files with a text in them."""
    return [
        file.name for file in sorted(directory.rglob("*")) if file.is_file() and text.encode() in file.read_bytes()
    ]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def storage(directory: Path) -> Iterator[SqliteStorage]:
    """One that goes on, and of which a copy is what a killed process would have left."""
    with directories.hold(directory):
        storage = SqliteStorage(directory, carrier=AtOnce())
        assert storage.clerk is not None
        assert storage.clerk.make()
        yield storage
        storage.close()


@pytest.fixture
def accounts(storage: SqliteStorage) -> list[Account]:
    """Each with more in the daybook than in its file."""
    accounts = [Account(storage, space) for space in (SPACE, ALICE, BOB)]
    for number in range(6):
        for account in accounts[: 1 + number % 3]:
            assert account.commit(f"{PRIVATE} {number}", commits=number % 3 + 1)
    return accounts


@pytest.fixture
def left(tmp_path: Path, directory: Path, accounts: list[Account]) -> Path:
    """What was left by a process that was killed."""
    copy = tmp_path / "left"
    shutil.copytree(directory, copy)
    assert [in_file(copy, account.space) for account in accounts] == [1, 1, 1]
    return copy


@pytest.mark.rule("STORE-6")
@pytest.mark.parametrize("threads", [1, 3])
def test_the_spaces_that_were_left_are_brought_in_side_by_side(
    left: Path, accounts: list[Account], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "LEFT_TO_A_THREAD", 4 if threads == 1 else 1)
    again = SqliteStorage(left)
    try:
        assert [in_file(left, account.space) for account in accounts] == [account.version for account in accounts]
        assert not volumes(left)
    finally:
        again.close()


# ---------------------------------------------------------------- nobody holds the directory


@pytest.mark.rule("COMMIT-1", "STORE-1")
@pytest.mark.parametrize("has_carrier", [False, True])
def test_whoever_opens_the_directory_brings_in_all_that_was_left(
    left: Path, accounts: list[Account], has_carrier: bool
) -> None:
    storage = SqliteStorage(left, carrier=AtOnce() if has_carrier else None)
    assert [in_file(left, account.space) for account in accounts] == [account.maker.version for account in accounts]
    assert volumes(left) == []
    for account in accounts:
        log = storage.open(account.space)
        assert verified(log) == account.maker.version
        with log.reader() as reader:
            assert reader.tip().hash == account.maker.tip.hash
    storage.close()


@pytest.mark.rule("COMMIT-1")
def test_a_log_that_was_brought_in_goes_on_with_a_daybook(left: Path, accounts: list[Account]) -> None:
    storage = SqliteStorage(left, carrier=AtOnce())
    assert storage.clerk is not None
    assert storage.clerk.make()
    account = accounts[0]
    account.log.close()
    account.log = storage.open(SPACE)
    assert not account.commit(commits=4), "nothing of it is in memory"
    assert account.commit(commits=2)
    assert verified(account.log) == account.maker.version
    storage.close()
    assert volumes(left) == []


@pytest.mark.rule("COMMIT-1", "STORE-1")
def test_whoever_only_reads_brings_it_in_as_well(left: Path, accounts: list[Account]) -> None:
    storage = SqliteStorage(left, read_only=True)
    for account in accounts:
        assert verified(storage.open(account.space)) == account.maker.version
    storage.close()
    assert volumes(left) == []
    assert not directories.is_held(left)


@pytest.mark.rule("COMMIT-1")
def test_what_was_posted_before_the_end_is_not_brought_in_twice(
    tmp_path: Path, directory: Path, storage: SqliteStorage, accounts: list[Account]
) -> None:
    look(storage)
    look(storage)
    assert [in_file(directory, account.space) for account in accounts] == [one.maker.version for one in accounts]
    assert accounts[0].commit()
    shutil.copytree(directory, tmp_path / "left")
    later = SqliteStorage(tmp_path / "left")
    assert [verified(later.open(one.space)) for one in accounts] == [one.maker.version for one in accounts]
    later.close()


@pytest.mark.rule("COMMIT-1")
def test_whoever_is_killed_while_bringing_in_leaves_it_to_the_next(
    tmp_path: Path, left: Path, accounts: list[Account]
) -> None:
    """Some spaces have all of it then, and the daybook is still there."""
    kept = [file.read_bytes() for file in volumes(left)]
    SqliteStorage(left).close()
    for name, content in zip(("daybook.0", "daybook.1"), kept, strict=True):
        (left / name).write_bytes(content)
    storage = SqliteStorage(left)
    assert volumes(left) == []
    assert [verified(storage.open(one.space)) for one in accounts] == [one.maker.version for one in accounts]
    storage.close()


# ---------------------------------------------------------------- of another log


@pytest.mark.rule("STORE-1")
def test_what_does_not_follow_a_log_that_was_put_in_its_place_is_dropped(
    tmp_path: Path, directory: Path, storage: SqliteStorage
) -> None:
    account = Account(storage)
    older, left = tmp_path / "older", tmp_path / "left"
    account.log.close()
    shutil.copytree(directory, older)
    account.log = storage.open(SPACE)
    new = [account.maker.commit(*(set_(f"urn:new:{number}", 0, blind=True) for number in range(3)))]
    account.log.append(Version(1), new)
    assert account.hand_over([account.maker.commit(set_("urn:new:1", 1, blind=True))])
    shutil.copytree(directory, left)
    shutil.rmtree(file_of(left).parent)
    shutil.copytree(file_of(older).parent, file_of(left).parent)
    for read_only in (True, False):
        again = SqliteStorage(left, read_only=read_only)
        assert verified(again.open(SPACE)) == 1
        assert volumes(left) == []
        again.close()


@pytest.mark.rule("STORE-1", "STORE-6")
def test_what_follows_another_log_at_the_same_version_is_dropped(tmp_path: Path, left: Path) -> None:
    """Of the same space, with the same numbers for its entities and sessions."""
    other = SqliteStorage(tmp_path / "other")
    log, maker = other.open(SPACE, create=True), LogMaker()
    log.append(Version(0), [maker.commit(*(set_(id_, "another value", blind=True) for id_ in IDS))])
    other.close()
    shutil.rmtree(file_of(left).parent)
    shutil.copytree(file_of(tmp_path / "other").parent, file_of(left).parent)
    storage = SqliteStorage(left)
    assert verified(storage.open(SPACE)) == 1
    assert volumes(left) == []
    storage.close()


@pytest.mark.rule("STORE-1")
def test_rows_of_entities_that_another_file_of_the_same_log_does_not_have_are_dropped(left: Path) -> None:
    """By hand every entity got another number there."""
    file = apsw.Connection(str(file_of(left)))
    file.execute("UPDATE fact SET entity = entity + 100; UPDATE entity SET entity = entity + 100")
    file.close()
    storage = SqliteStorage(left)
    assert verified(storage.open(SPACE)) == 1
    assert volumes(left) == []
    storage.close()


@pytest.mark.rule("STORE-1")
@pytest.mark.parametrize("read_only", [False, True])
def test_what_a_space_has_left_that_is_gone_is_dropped(left: Path, accounts: list[Account], read_only: bool) -> None:
    shutil.rmtree(file_of(left, ALICE).parent)
    storage = SqliteStorage(left, read_only=read_only)
    assert verified(storage.open(SPACE)) == accounts[0].maker.version
    assert volumes(left) == []
    with pytest.raises(UnknownSpace):
        storage.open(ALICE)
    storage.close()


# ---------------------------------------------------------------- a space that cannot be opened


def damaged(directory: Path, space: Did) -> Callable[[], None]:
    """Damages the file of a space; what is returned repairs it."""
    place, sound = file_of(directory, space).parent, directory.parent / "sound"
    place.rename(sound)
    place.mkdir()
    (place / FILE).write_bytes(b"no database at all" * 1_000)

    def repair() -> None:
        shutil.rmtree(place)
        sound.rename(place)

    return repair


@pytest.mark.rule("COMMIT-1", "STORE-1")
def test_the_daybook_is_kept_for_a_space_that_cannot_be_opened(left: Path, accounts: list[Account]) -> None:
    repair = damaged(left, ALICE)
    storage = SqliteStorage(left, carrier=AtOnce())
    assert len(volumes(left)) == 2
    account = accounts[0]
    account.log.close()
    account.log = storage.open(SPACE)
    assert not any(account.commit(commits=4) for _ in range(2 * WORTH_IT)), "no page is written over what is kept"
    assert verified(account.log) == account.maker.version
    with pytest.raises(StorageFailed):
        storage.open(ALICE)
    storage.close()
    assert len(volumes(left)) == 2
    repair()
    again = SqliteStorage(left)
    assert [verified(again.open(one.space)) for one in accounts] == [one.maker.version for one in accounts]
    assert volumes(left) == []
    again.close()


@pytest.mark.rule("COMMIT-1")
def test_a_space_that_can_be_opened_again_gets_its_own_and_then_there_is_a_daybook(
    left: Path, accounts: list[Account]
) -> None:
    repair = damaged(left, ALICE)
    storage = SqliteStorage(left, carrier=AtOnce())
    repair()
    assert verified(storage.open(ALICE)) == accounts[1].maker.version
    account = accounts[0]
    account.log.close()
    account.log = storage.open(SPACE)
    end = time.monotonic() + SECONDS_MAX
    while not account.commit(commits=4):
        assert time.monotonic() < end, "there is no daybook"
    assert verified(account.log) == account.maker.version
    storage.close()
    assert volumes(left) == []


@pytest.mark.rule("ERASE-1")
def test_no_scrub_says_it_is_done_while_a_daybook_that_was_left_has_a_trace(
    left: Path, accounts: list[Account]
) -> None:
    repair = damaged(left, ALICE)
    storage = SqliteStorage(left, carrier=AtOnce())
    log, maker = storage.open(SPACE), accounts[0].maker
    written = sorted({fact.version for fact in maker.facts if fact.id in IDS[:3] and fact.version > 1})
    for id_ in IDS[:3]:
        log.append(maker.version, [maker.erase(id_, written)])
    assert log.owes_scrub
    with pytest.raises(StorageFailed):
        log.scrub()
    log.close()
    shutil.rmtree(file_of(left, BOB).parent)  # they have the same in theirs
    repair()
    storage.open(ALICE).close()
    shutil.rmtree(file_of(left, ALICE).parent)
    log = storage.open(SPACE)
    assert log.owes_scrub
    log.scrub()
    assert holds(left, PRIVATE) == []
    assert verified(log) == maker.version
    storage.close()


# ---------------------------------------------------------------- another holds the directory


class Reading(threading.Thread):
    """Opens a space read-only, beside whoever holds the directory."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._directory = directory
        self.waits = threading.Event()
        self.found = 0
        is_held = directories.is_held

        def asked(asked_for: Path) -> bool:
            self.waits.set()
            return is_held(asked_for)

        monkeypatch.setattr(directories, "is_held", asked)

    def run(self) -> None:
        storage = SqliteStorage(self._directory, read_only=True)
        self.found = verified(storage.open(SPACE))
        storage.close()


@pytest.mark.rule("COMMIT-1", "STORE-2")
def test_whoever_reads_beside_a_daybook_waits_until_it_is_posted(
    directory: Path, storage: SqliteStorage, accounts: list[Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(directory, monkeypatch)
    reading.start()
    assert reading.waits.wait(SECONDS_MAX)
    assert in_file(directory) == 1
    assert look(storage)
    assert not look(storage)
    reading.join(SECONDS_MAX)
    assert reading.found == accounts[0].maker.version
    assert len(volumes(directory)) == 2


def test_whoever_reads_beside_a_daybook_that_is_posted_does_not_wait(
    directory: Path, storage: SqliteStorage, accounts: list[Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    look(storage)
    look(storage)
    reading = Reading(directory, monkeypatch)
    reading.start()
    reading.join(SECONDS_MAX)
    assert reading.found == accounts[0].maker.version
    assert not reading.waits.is_set()


@pytest.mark.usefixtures("accounts")
def test_whoever_reads_beside_a_daybook_that_nobody_posts_is_told_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daybook_waiting, "WAIT_SECONDS_MAX", 0.02)
    reader = SqliteStorage(directory, read_only=True)
    with pytest.raises(StorageFailed, match="try again"):
        reader.open(SPACE)
    reader.close()
