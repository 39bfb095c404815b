"""The write-ahead log stays bounded, whoever reads meanwhile, and no write fails for it."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from appends import append_to
from logs import LogMaker
from snapshots import drop_snapshots
from space import SPACE, set_
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage, truncate_wal
from stemmadb.server.storage.sqlite.connection import BUSY_MS, WAL_BYTES_MAX, checkpoint
from stemmadb.server.storage.sqlite.truncate_wal import WalTruncation

LONG = 500_000
BODY = "b" * 100_000
PATIENT_MS = 20_000


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteStorage]:
    made = SqliteStorage(tmp_path)
    yield made
    made.close()


@pytest.fixture
def log(backend: SqliteStorage) -> SqliteLog:
    return backend.open(SPACE, create=True)


def bounded(log: SqliteLog, *, wait_ms: int) -> None:
    assert log._writer is not None
    log._wal_truncation = WalTruncation(log._writer, long_bytes=LONG, wait_ms=wait_ms)


def wal_bytes(log: SqliteLog) -> int:
    return (log.directory / "space.db-wal").stat().st_size


def append(log: SqliteLog, maker: LogMaker, body: str = BODY) -> None:
    append_to(log, maker.version, [maker.commit(set_("urn:x", body, blind=True))])


class Overlapping:
    """Two threads that read in turns; each ends its read view only once the other has opened one."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self._is_over = False
        self._opened = [threading.Semaphore(0), threading.Semaphore(0)]
        self._threads = [threading.Thread(target=self._read, args=(number,)) for number in (0, 1)]

    def __enter__(self) -> None:
        self._opened[1].release()
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()

    def _read(self, number: int) -> None:
        mine, other = self._opened[number], self._opened[1 - number]
        while not self._is_over:
            with self._log.reader() as reader:
                reader.tip()
                mine.release()
                other.acquire()
        for _ in range(2):
            mine.release()


def test_the_log_stays_bounded_while_readers_overlap_for_ever(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that does much else they may once keep it long for all the time that a write waits."""
    worked: list[bool] = []

    def noted(connection: apsw.Connection, mode: str) -> bool:
        worked.append(checkpoint(connection, mode))
        return worked[-1]

    monkeypatch.setattr(truncate_wal, "checkpoint", noted)
    maker = LogMaker()
    bounded(log, wait_ms=PATIENT_MS)
    with Overlapping(log):
        for _ in range(60):
            append(log, maker)
            kept_long = bool(worked) and not worked[-1]
            assert wal_bytes(log) < LONG * (1 + kept_long) + 2 * len(BODY)
    assert len(worked) >= 5
    assert worked.count(False) <= 1
    with log.reader() as reader:
        assert reader.tip().version == 60


def test_a_reader_that_stays_fails_no_write_and_is_not_waited_for_each_time(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def counted(connection: apsw.Connection, mode: str) -> bool:
        tries.append(wal_bytes(log))
        return checkpoint(connection, mode)

    monkeypatch.setattr(truncate_wal, "checkpoint", counted)
    maker = LogMaker()
    append(log, maker)
    bounded(log, wait_ms=1)
    with log.reader() as reader:
        for _ in range(20):
            append(log, maker)
        assert reader.tip().version == 1
    assert 2 <= len(tries) <= 5
    assert all(later - before >= LONG for before, later in itertools.pairwise(tries))
    for _ in range(LONG // len(BODY)):
        append(log, maker)
    assert wal_bytes(log) < LONG
    for _ in range(2 * LONG // len(BODY)):
        append(log, maker)
        assert wal_bytes(log) < LONG + 2 * len(BODY), "once it was short the first bound holds again"


def test_snapshots_and_blobs_are_bounded_too(log: SqliteLog) -> None:
    append(log, LogMaker())
    assert log._writer is not None
    log._wal_truncation = WalTruncation(log._writer, long_bytes=1, wait_ms=1)
    drop_snapshots(log)
    assert wal_bytes(log) == 0
    assert log._writer.pragma("busy_timeout") == BUSY_MS, "only this wait is short"


def test_the_file_of_the_log_is_cut_when_it_begins_anew(log: SqliteLog) -> None:
    maker = LogMaker()
    append(log, maker)
    with log.reader() as reader:
        for _ in range(6):
            append(log, maker, "b" * 4_000_000)
        assert reader.tip().version == 1
        assert wal_bytes(log) > WAL_BYTES_MAX
    for _ in range(3):
        append(log, maker, "b")
    assert wal_bytes(log) <= WAL_BYTES_MAX


@pytest.mark.rule("COMMIT-10")
def test_a_log_that_cannot_be_looked_at_fails_the_next_write(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> os.stat_result:
        raise OSError

    maker = LogMaker()
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", fails)
        append(log, maker)
    with log.reader() as reader:
        assert reader.tip().version == 1
    with pytest.raises(StorageFailed, match="opened again"):
        append_to(log, Version(1), [])
