"""Large blobs of a database are in a directory that its nodes share, which both know by an id."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import postgres_server
from blob_space import LARGE, LIMITS, SMALL, BlobSpace, Clock, Threads, name_of
from command_line import here
from engines import engine
from kept_spaces import fill
from node_processes import url_of
from served import config_of, served
from space import BOB, SPACE
from stemmadb.client import Identity, connect
from stemmadb.client.cli import exits
from stemmadb.protocol.errors import LimitExceeded, Unavailable, UnknownBlob
from stemmadb.server.engine.blobs.blobs import STRAY_KEEP_MS, BlobStore
from stemmadb.server.storage.blob_directory import ARRIVING, MARKER, blob_path
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.sqlite import SqliteStorage

LARGEST = 64 * 1024


@pytest.fixture
def own() -> Iterator[str]:
    """A database that knows no directory yet."""
    with postgres_server.own_database() as made:
        yield made


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


@pytest.fixture
def first(own: str, shared: Path) -> Iterator[PostgresStorage]:
    """The node that gave the directory its id."""
    storage = PostgresStorage(own)
    storage.use_blobs(shared)
    yield storage
    storage.close()


def blobs_of(storage: PostgresStorage, clock: Clock) -> BlobStore:
    space = BlobSpace(storage, LIMITS)
    log = space.log
    return BlobStore(space, directory=log.directory, large=log.large_blobs, workers=Threads(), now=clock)


def files_in(shared: Path) -> list[Path]:
    return [path for path in (shared / SPACE).rglob("*") if path.is_file()]


@pytest.mark.rule("BLOB-1")
async def test_a_large_blob_that_one_node_took_is_read_at_the_next(own: str, shared: Path, tmp_path: Path) -> None:
    identity = Identity.from_seed(bytes(range(32)))
    config = config_of(tmp_path / "data", storage=url_of(own), blobs=shared)
    ref = None
    for _ in range(2):
        async with (
            asyncio.timeout(60),
            served(config) as address,
            connect(address, identity=identity, config=tmp_path / "config") as database,
        ):
            space = await database.space("blobs")
            if ref is None:
                ref = await space.blobs.put(LARGE)
                await space.blobs.put(SMALL)
            assert await space.blobs.get(ref) == LARGE
    assert [path.stat().st_size for path in shared.glob("did:*/blobs/*")] == [len(LARGE)]


@pytest.mark.rule("BLOB-1")
async def test_without_a_directory_hello_says_that_blobs_are_small(own: str, tmp_path: Path) -> None:
    identity = Identity.from_seed(bytes(range(32)))
    config = config_of(tmp_path / "data", storage=url_of(own))
    async with (
        asyncio.timeout(60),
        served(config) as address,
        connect(address, identity=identity, config=tmp_path / "config") as database,
    ):
        space = await database.space("blobs")
        await space.blobs.put(bytes(LARGEST))
        with pytest.raises(LimitExceeded) as refused:
            await space.blobs.put(bytes(LARGEST + 1))
        assert refused.value.facts["maximum"] == LARGEST


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("export", "-")])
def test_a_directory_is_for_databases(tmp_path: Path, command: tuple[str, ...]) -> None:
    refused = here(*command, "--data", tmp_path, "--blobs", tmp_path)
    assert refused.code in (exits.UNREACHABLE, exits.WRONG_USE)
    assert "--blobs goes with --storage" in refused.err


# ------------------------------------------------------------ which directory


def refused(url: str, directory: Path | None) -> str:
    storage = PostgresStorage(url)
    try:
        with pytest.raises(Unavailable) as found:
            storage.use_blobs(directory)
        return found.value.message
    finally:
        storage.close()


@pytest.mark.usefixtures("first")
def test_other_nodes_need_the_same_directory(own: str, shared: Path, tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    assert "Is it mounted?" in refused(own, tmp_path / "mount")
    assert "There is no directory" in refused(own, tmp_path / "missing")
    assert "--blobs" in refused(own, None)
    (tmp_path / "mount" / MARKER).write_text("another one\n")
    assert "Is it mounted?" in refused(own, tmp_path / "mount")
    second = PostgresStorage(own)
    second.use_blobs(shared)
    second.close()


@pytest.mark.usefixtures("first")
def test_a_directory_belongs_to_one_database(shared: Path) -> None:
    with postgres_server.own_database(is_empty=True) as other:  # others are copies of one template
        assert "another database" in refused(other, shared)
        with psycopg.connect(other) as connection:
            assert connection.execute("SELECT value FROM stemmadb.meta WHERE key = 'blobs'").fetchall() == []


def test_a_first_start_that_was_interrupted_is_completed_by_the_next(first: PostgresStorage, shared: Path) -> None:
    before = (shared / MARKER).read_text()
    with psycopg.connect(first._dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM stemmadb.meta WHERE key = 'blobs'")
    first.use_blobs(shared)
    assert (shared / MARKER).read_text() == before
    with psycopg.connect(first._dsn) as connection:
        stored = connection.execute("SELECT value FROM stemmadb.meta WHERE key = 'blobs'").fetchall()
    assert stored == [(before.strip(),)]


def test_a_command_that_reads_gives_no_directory_an_id(own: str, shared: Path) -> None:
    reading = PostgresStorage(own, read_only=True)
    with pytest.raises(Unavailable):
        reading.use_blobs(shared)
    reading.close()
    assert list(shared.iterdir()) == []


# ------------------------------------------------------------ what is in it


@pytest.mark.rule("BLOB-2")
async def test_bytes_without_a_row_go_after_a_day_and_those_with_a_row_stay(
    first: PostgresStorage, shared: Path
) -> None:
    clock = Clock()
    blobs = blobs_of(first, clock)
    kept, stray = await blobs.put(LARGE), name_of(b"stray")
    path = blob_path(shared / SPACE, stray)
    path.write_bytes(b"stray")
    for age, stays in ((0, True), (STRAY_KEEP_MS, True), (STRAY_KEEP_MS + 1, False)):
        seconds = (clock.now - age) / 1_000
        if path.exists():
            os.utime(path, (seconds, seconds))
            os.utime(blob_path(shared / SPACE, kept.hash), (0, 0))
        await blobs.sweep()
        assert path.exists() is stays
    assert (await blobs.read(kept.hash, length=10)).data == LARGE[:10]


@pytest.mark.rule("BLOB-1")
async def test_the_row_comes_after_the_bytes(
    first: PostgresStorage, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that ends between the two leaves bytes without a row: the blob is not there, and can be sent again."""
    blobs = blobs_of(first, Clock())
    log = first._by_space[SPACE]

    def ended(*_: object) -> None:
        assert blob_path(shared / SPACE, name_of(LARGE)).stat().st_size == len(LARGE)
        raise Unavailable

    with monkeypatch.context() as patched:
        patched.setattr(log, "put_blob", ended)
        with pytest.raises(Unavailable):
            await blobs.put(LARGE)
    with pytest.raises(UnknownBlob):
        await blobs.stat(name_of(LARGE))
    await blobs.put(LARGE)
    assert (await blobs.read(name_of(LARGE), length=5)).data == LARGE[:5]


@pytest.mark.rule("BLOB-1")
async def test_a_directory_that_is_not_mounted_any_more_takes_and_lacks_nothing(
    first: PostgresStorage, shared: Path
) -> None:
    blobs = blobs_of(first, Clock())
    kept = await blobs.put(LARGE)
    (shared / MARKER).rename(shared.parent / "away")
    (shared / SPACE).rename(shared.parent / "mounted before")
    with pytest.raises(Unavailable, match="not there any more"):
        await blobs.read(kept.hash)
    with pytest.raises(Unavailable, match="not there any more"):
        await blobs.put(LARGE[1:])
    assert not (shared / SPACE / "blobs").exists()
    (shared / SPACE / "uploads").rename(shared.parent / "uploads in the mount point")
    (shared / SPACE).rmdir()
    (shared.parent / "mounted before").rename(shared / SPACE)
    (shared.parent / "away").rename(shared / MARKER)
    assert (await blobs.read(kept.hash, length=9)).data == LARGE[:9]


@pytest.mark.rule("ERASE-1", "BLOB-2")
async def test_removed_blobs_leave_the_directory_at_once(first: PostgresStorage, shared: Path) -> None:
    blobs = blobs_of(first, Clock())
    kept = await blobs.put(LARGE)
    await asyncio.to_thread(first._by_space[SPACE].drop_blobs, [kept.hash])
    await blobs.remove([kept.hash])
    assert files_in(shared) == []


async def test_a_blob_whose_directory_this_node_was_not_given_is_unavailable(
    first: PostgresStorage, own: str
) -> None:
    """As one that was started before the first node had a directory."""
    blobs = blobs_of(first, Clock())
    await blobs.put(LARGE)
    first._by_space[SPACE].close()
    other = PostgresStorage(own)
    with pytest.raises(Unavailable, match="directory"):
        await blobs_of(other, Clock()).read(name_of(LARGE))
    other.close()


# ------------------------------------------------------------ commands


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """The export of a space with a large blob."""
    storage = SqliteStorage(tmp_path / "data")
    fill(storage.open(SPACE, create=True))
    storage.close()
    assert here("export", tmp_path / "stream.jsonl", "--data", tmp_path / "data").code == 0
    return tmp_path / "stream.jsonl"


@pytest.mark.rule("KEEP-1", "KEEP-2", "KEEP-3")
def test_commands_bring_large_blobs_there_and_back(own: str, shared: Path, stream: Path, tmp_path: Path) -> None:
    place = ("--storage", url_of(own), "--blobs", shared)
    without = here("import", stream, "--storage", url_of(own), "--json")
    assert (without.code, without.error) == (exits.REFUSED, "bad_stream")
    assert "--blobs" in without.json["error"]["message"]
    assert here("import", stream, *place).code == 0
    (file,) = files_in(shared)
    assert file.parent.name == "blobs"
    assert here("verify", *place).code == 0
    assert here("verify", "--storage", url_of(own)).code == exits.UNREACHABLE
    assert here("export", tmp_path / "again.jsonl", *place).code == 0
    assert (tmp_path / "again.jsonl").read_bytes() == stream.read_bytes()
    assert here("backup", tmp_path / "backup", *place).code == 0
    with postgres_server.own_database(is_empty=True) as empty:
        (tmp_path / "other").mkdir()
        there = ("--storage", url_of(empty), "--blobs", tmp_path / "other")
        assert here("restore", tmp_path / "backup", *there).code == 0
        assert here("verify", *there).code == 0
    file.write_bytes(b"changed")
    assert here("verify", *place).code == exits.NO


@pytest.mark.rule("KEEP-3")
def test_an_import_that_is_not_right_leaves_no_blob(own: str, shared: Path, stream: Path) -> None:
    data = stream.read_bytes()
    stream.write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    refused = here("import", stream, "--storage", url_of(own), "--blobs", shared, "--json")
    assert refused.error == "bad_stream"
    assert files_in(shared) == []


@pytest.mark.rule("KEEP-3")
def test_what_a_killed_import_had_read_of_a_blob_goes_with_the_next_import(
    first: PostgresStorage, shared: Path
) -> None:
    with suppress(StorageFailed), first.incoming() as place:
        place.open(SPACE).close()
        (shared / SPACE).mkdir()
        (shared / SPACE / f"{ARRIVING}b3:half").write_bytes(b"half of it")
        place._connection.close()
    assert files_in(shared)
    with first.incoming():
        assert files_in(shared) == []


@pytest.mark.rule("COMPACT-1", "BLOB-2")
async def test_a_compaction_removes_large_blobs_that_nothing_refers_to(first: PostgresStorage, shared: Path) -> None:
    async with engine(first, access={BOB: "own"}) as it:
        directory, large = await it.space.in_turn(lambda log: (log.directory, log.large_blobs))
        clock = Clock(1)
        blobs = BlobStore(it.space, directory=directory, large=large, workers=Threads(), now=clock)
        await blobs.put(LARGE)
    assert len(files_in(shared)) == 1
    words = ("compact", "--space", SPACE, "--floor", 1, "--yes", "--storage", url_of(first._dsn), "--blobs", shared)
    done = await asyncio.to_thread(here, *words, "--json")
    assert (done.code, done.json["blobs"]) == (0, 1), done.out
    assert files_in(shared) == []
