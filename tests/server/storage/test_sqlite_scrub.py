"""Scrubbing: after it no file of the data directory holds a byte of what was destroyed (ERASE-1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from appends import append_to
from logs import LogMaker, place_of
from snapshots import drop_snapshots
from space import SPACE, patch_, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Hash, TimeMs, Version
from stemmadb.server.storage.port import AcceptedWrite, Destroyed, StorageFailed, StoredBlob
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage

X, Y = "urn:x", "urn:y"
BLOB = Hash(b"b" * 32)
PIECE = 48
"""A trace counts from this length on: shorter than what is left of a row that was moved between pages."""


def secret(name: str, size: int) -> str:
    """Text that nothing else in the files can look like, different in every part."""
    parts = (hashlib.sha256(f"{name} {number}".encode()).hexdigest() for number in range(size // 64 + 1))
    return "".join(parts)[:size]


def traces(directory: Path, text: str) -> int:
    """How many pieces of a text are found in any file, whatever it was cut into by pages."""
    data = [file.read_bytes() for file in directory.rglob("*") if file.is_file()]
    pieces = [text[start : start + PIECE].encode() for start in range(0, len(text), PIECE)]
    return sum(any(piece in held for held in data) for piece in pieces)


def owes(log: SqliteLog) -> bool:
    return log.owes_scrub


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteStorage]:
    made = SqliteStorage(tmp_path, scrub_wait_ms=20)
    yield made
    made.close()


SIZES = [100, 3_000, 40_000]


@pytest.fixture(params=SIZES)
def secrets(request: pytest.FixtureRequest) -> dict[str, str]:
    """On one page, filling one, and over many."""
    names = ("body", "patch", "note", "snapshot", "blob", "kept")
    return {name: secret(name, request.param) for name in names}


def fill(log: SqliteLog, secrets: dict[str, str]) -> LogMaker:
    """A log with a secret in each place where one can be, between other rows."""
    maker = LogMaker()
    batch = [maker.commit(*[set_(f"urn:fill:{n}", secret(f"fill {n}", 300), blind=True) for n in range(50)])]
    batch.append(maker.commit(set_(X, {"a": secrets["body"]}, blind=True), note=encode([secrets["note"], None])))
    batch.append(maker.commit(patch_(X, {"op": "add", "path": "/b", "value": secrets["patch"]}, blind=True)))
    batch.append(maker.commit(set_(Y, {"a": secrets["kept"]}, blind=True)))
    append_to(log, Version(0), batch)
    for fact in maker.facts[-3:]:
        snapshot = maker.snapshot(fact)
        assert snapshot is not None
        log.store_snapshots([snapshot])
    data = secrets["blob"].encode()
    log.put_blob(StoredBlob(BLOB, len(data), "text/plain", TimeMs(1), False), data)
    return maker


@pytest.mark.rule("ERASE-1")
def test_a_byte_scan_finds_nothing_of_what_was_erased(
    backend: SqliteStorage, tmp_path: Path, secrets: dict[str, str]
) -> None:
    log = backend.open(SPACE, create=True)
    maker = fill(log, secrets)
    for name in ("body", "patch", "note", "blob", "kept"):
        assert traces(tmp_path, secrets[name]) > 0, "it is seen while it is there"
    append_to(log, Version(4), [maker.erase(X, [2, 3], blobs=[BLOB])])
    assert owes(log)
    log.scrub()
    assert not owes(log)
    for name in ("body", "patch", "note", "blob"):
        assert traces(tmp_path, secrets[name]) == 0, name
    assert traces(tmp_path, secrets["kept"]) > 0
    with log.reader() as reader:
        assert [fact for _, facts in reader.history() for fact in facts] == maker.facts
        assert [snapshot.id for snapshot in reader.snapshots()] == [Y]
        assert reader.blob(BLOB) is None
        assert max(progress.version for progress in chain.verify(SPACE, reader.history())) == 5
    log.close()
    assert traces(tmp_path, secrets["body"]) == 0


@pytest.mark.rule("COMPACT-1")
def test_snapshots_and_bodies_below_a_floor_leave_no_trace(
    backend: SqliteStorage, tmp_path: Path, secrets: dict[str, str]
) -> None:
    log = backend.open(SPACE, create=True)
    maker = fill(log, secrets)
    append_to(log, Version(4), [maker.commit(set_(X, 1, blind=True)), maker.commit(set_(Y, 1, blind=True))])
    append_to(log, Version(6), [maker.compact(5)])
    log.scrub()
    for name in ("body", "patch"):
        assert traces(tmp_path, secrets[name]) == 0, name
    assert traces(tmp_path, secrets["kept"]) > 0, "it is read at the floor"
    assert traces(tmp_path, secrets["note"]) > 0, "a compaction takes no notes"


@pytest.mark.rule("ERASE-1")
def test_a_debt_is_remembered_by_the_file_and_by_those_who_read_it(backend: SqliteStorage, tmp_path: Path) -> None:
    log = backend.open(SPACE, create=True)
    text = secret("body", 500)
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_(X, text, blind=True))])
    assert not owes(log)
    append_to(log, Version(1), [maker.erase(X, [1])])
    log.close()
    reading = SqliteStorage(tmp_path, read_only=True)
    assert reading.open(SPACE).owes_scrub
    reading.close()
    log = backend.open(SPACE)
    assert owes(log)
    append_to(log, Version(2), [maker.commit(set_(Y, 1, blind=True))])
    assert owes(log)
    log.scrub()
    log.close()
    assert not backend.open(SPACE).owes_scrub
    assert traces(tmp_path, text) == 0


@pytest.mark.rule("ERASE-1")
def test_a_reader_that_does_not_end_makes_the_scrub_fail_and_the_debt_stay(
    backend: SqliteStorage, tmp_path: Path
) -> None:
    log = backend.open(SPACE, create=True)
    maker = LogMaker()
    text = secret("body", 500)
    append_to(log, Version(0), [maker.commit(set_(X, text, blind=True))])
    with log.reader() as reader:
        append_to(log, Version(1), [maker.erase(X, [1])])
        with pytest.raises(StorageFailed, match="readers hold on"):
            log.scrub()
        assert reader.facts_of(EntityId(X))[0].body == encode(text), "the read view stays as it is"
        assert owes(log)
    log.close()
    log = backend.open(SPACE)
    assert owes(log)
    log.scrub()
    assert traces(tmp_path, text) == 0


@pytest.mark.rule("ERASE-1")
def test_readers_that_have_ended_and_idle_connections_do_not_stop_a_scrub(
    backend: SqliteStorage, tmp_path: Path
) -> None:
    log = backend.open(SPACE, create=True)
    maker = LogMaker()
    text = secret("body", 500)
    append_to(log, Version(0), [maker.commit(set_(X, text, blind=True))])
    append_to(log, Version(1), [maker.commit(set_(Y, 1, blind=True))])
    with log.reader() as one, log.reader() as other:
        left = [one.history(), other.history(), one.changed(maker.spans())]
        for begun in left:
            next(begun)
    assert not any(idle.in_transaction for idle in log._pool._idle)
    append_to(log, Version(2), [maker.erase(X, [1])])
    log.scrub()
    assert traces(tmp_path, text) == 0


def test_destroying_what_is_gone_or_was_never_there_changes_nothing(backend: SqliteStorage) -> None:
    log = backend.open(SPACE, create=True)
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_(X, 1, blind=True), note=encode(["m", None]))])
    append_to(log, Version(1), [maker.erase(X, [1])])
    places = [*map(place_of, maker.facts), place_of(maker.facts[0])]
    entry = maker.revoke(b"d" * 32)
    again = Destroyed(facts=places, notes=[Version(1), Version(2), Version(99)], blobs=[BLOB])
    append_to(log, Version(2), [AcceptedWrite(entry.commit, (), again)])
    with log.reader() as reader:
        assert [fact for _, facts in reader.history() for fact in facts] == maker.facts
        assert [commit for commit, _ in reader.history()] == maker.commits


@pytest.mark.rule("SNAP-1", "BLOB-2")
def test_what_was_dropped_is_scrubbed_as_well(backend: SqliteStorage, tmp_path: Path) -> None:
    log = backend.open(SPACE, create=True)
    secrets = {name: secret(name, 3_000) for name in ("body", "patch", "note", "kept", "blob")}
    fill(log, secrets)
    log.drop_blobs([BLOB])
    drop_snapshots(log)
    log.scrub()
    assert traces(tmp_path, secrets["blob"]) == 0
    with log.reader() as reader:
        assert list(reader.snapshots()) == []
        assert list(reader.blobs()) == []
