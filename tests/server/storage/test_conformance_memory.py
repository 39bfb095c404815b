"""The reference backend's own: faults that a test asks for, and mistakes of the caller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from appends import append_to
from logs import LogMaker
from snapshots import drop_snapshots
from space import SPACE, set_
from stemmadb.protocol.model.values.ids import EntityId, Hash, TimeMs, Version
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.port import (
    AcceptedWrite,
    DiskFull,
    FactPosition,
    LogReader,
    Snapshot,
    SpaceLog,
    Storage,
    StorageFailed,
    StoredBlob,
)

BLOB = StoredBlob(Hash(b"1" * 32), 1, "", TimeMs(0), in_file=False)


def failing(*operations: str, error: type[StorageFailed] = StorageFailed) -> Callable[[str], None]:
    def fail(operation: str) -> None:
        if operation in operations:
            raise error(operation)

    return fail


def one_entry() -> AcceptedWrite:
    return LogMaker().commit(set_("urn:x", 1, blind=True))


def version_of(log: SpaceLog) -> int:
    with log.reader() as reader:
        return reader.tip().version


def opened() -> tuple[MemoryStorage, MemoryLog]:
    storage = MemoryStorage()
    return storage, storage.open(SPACE, create=True)


def test_the_backend_in_memory_is_a_storage() -> None:
    storage: Storage = MemoryStorage()
    log: SpaceLog = storage.open(SPACE, create=True)
    with log.reader() as made:
        reader: LogReader = made
        assert reader.tip().version == 0
    assert (log.is_alone, log.directory) == (False, None)


@pytest.mark.rule("COMMIT-10")
@pytest.mark.parametrize("error", [StorageFailed, DiskFull])
def test_an_append_that_fails_before_it_is_durable_wrote_nothing(error: type[StorageFailed]) -> None:
    storage, log = opened()
    storage.fail = failing("append", error=error)
    with pytest.raises(error):
        append_to(log, Version(0), [one_entry()])
    storage.fail = failing()
    log.close()
    again = storage.open(SPACE)
    assert version_of(again) == 0
    append_to(again, Version(0), [one_entry()])
    assert version_of(again) == 1


@pytest.mark.rule("COMMIT-10")
def test_an_append_that_fails_after_it_is_durable_is_there_when_the_log_is_opened_again() -> None:
    storage, log = opened()
    storage.fail = failing("appended")
    with pytest.raises(StorageFailed):
        append_to(log, Version(0), [one_entry()])
    storage.fail = failing()
    assert version_of(storage.open(SPACE)) == 1


@pytest.mark.rule("COMMIT-10")
@pytest.mark.parametrize("operation", ["append", "appended"])
def test_a_log_that_failed_is_not_written_before_it_is_opened_again(operation: str) -> None:
    storage, log = opened()
    storage.fail = failing(operation)
    with pytest.raises(StorageFailed):
        append_to(log, Version(0), [one_entry()])
    storage.fail = failing()
    with pytest.raises(AssertionError, match="opened again"):
        append_to(log, Version(version_of(log)), [])


def test_a_closed_log_is_not_written() -> None:
    _, log = opened()
    log.close()
    with pytest.raises(AssertionError, match="closed"):
        append_to(log, Version(0), [])


OPERATIONS: dict[str, Callable[[MemoryLog], object]] = {
    "store_snapshots": lambda log: log.store_snapshots([]),
    "drop_snapshots": drop_snapshots,
    "put_blob": lambda log: log.put_blob(BLOB, b"x"),
    "drop_blobs": lambda log: log.drop_blobs([BLOB.hash]),
    "scrub": lambda log: log.scrub(),
    "reader": version_of,
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_can_be_made_to_fail(operation: str) -> None:
    storage, log = opened()
    OPERATIONS[operation](log)
    storage.fail = failing(operation, error=DiskFull)
    with pytest.raises(DiskFull):
        OPERATIONS[operation](log)


def test_opening_can_be_made_to_fail() -> None:
    storage = MemoryStorage(failing("open"))
    with pytest.raises(StorageFailed):
        storage.open(SPACE, create=True)
    assert storage.spaces() == []


def test_an_invalid_call_is_named_and_changes_nothing() -> None:
    _, log = opened()
    maker = LogMaker()
    first, second = (maker.commit(set_("urn:x", n, blind=True)) for n in (1, 2))
    internal_errors: list[tuple[str, list[AcceptedWrite], list[Snapshot]]] = [
        ("without a gap", [second], []),
        ("the facts of its record", [AcceptedWrite(first.commit)], []),
        (
            "not there",
            [first],
            [Snapshot(first.facts[0].branch, first.facts[0].id, FactPosition(Version(2), 0), b"\x01")],
        ),
        (
            "another entity",
            [first],
            [Snapshot(first.facts[0].branch, EntityId("urn:y"), FactPosition(Version(1), 0), b"")],
        ),
    ]
    for why, batch, snapshots in internal_errors:
        with pytest.raises(AssertionError, match=why):
            append_to(log, Version(0), batch, snapshots)
        assert version_of(log) == 0
    with pytest.raises(AssertionError, match="in a file"):
        log.put_blob(BLOB, None)


def test_a_record_of_another_history_is_not_appended() -> None:
    _, log = opened()
    one, other = LogMaker(), LogMaker()
    append_to(log, Version(0), [one.commit(set_("urn:x", 1, blind=True))])
    other.commit(set_("urn:x", 2, blind=True))
    with pytest.raises(AssertionError, match="the one before it"):
        append_to(log, Version(1), [other.commit(set_("urn:x", 3, blind=True))])
