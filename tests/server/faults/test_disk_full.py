"""A full disk: reads go on, writes are told `storage_full`, and work again when there is room, without a restart."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from blob_space import name_of
from engines import Engine, engine
from faulty_vfs import DiskCapacity, faulty
from plain_content import set_ as plain_set
from plain_world import ServedSpace
from served import config_of, served
from space import SPACE, set_
from stemmadb.protocol.errors import StorageFull, UnknownBlob
from stemmadb.protocol.model.commit.admission import Accepted, Repeated
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.limits import MEBIBYTE
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.blobs.blobs import BlobStore
from stemmadb.server.serving import health
from stemmadb.server.storage.blob_directory import BlobDirectory
from stemmadb.server.storage.sqlite import SqliteStorage, connection
from stemmadb.server.storage.sqlite.storage import SPACES

COMMITS_MAX = 200
TEXT = "x" * 8_000
DISK_BYTES = 2 * MEBIBYTE
BALLAST_BYTES = DISK_BYTES // 2


def write_of(it: Engine, number: int) -> Proposal:
    operation = set_(f"urn:full:{number}", {"n": number, "text": TEXT}, blind=True)
    return it.propose(operation, author=SPACE, session=f"s{number}", local=1)


async def fill(it: Engine) -> tuple[int, Proposal]:
    """Commits until there is no room; how many there are, and the one that was not taken.

    One that is told `storage_full` may be there: room can end while the log is moved into the database (COMMIT-10).
    """
    fulls = 0
    for number in range(COMMITS_MAX):
        proposal = write_of(it, number)
        try:
            assert isinstance(await it.space.decide(proposal), Accepted)
        except StorageFull:
            fulls += 1
            if not await is_there(it, proposal):
                return number, proposal
    raise AssertionError(f"the disk was full {fulls} times and did not stay so")


async def is_there(it: Engine, proposal: Proposal) -> bool:
    """Whether it was accepted; asking for it again writes nothing, and where there is room for it it is accepted."""
    try:
        return isinstance(await it.space.decide(proposal), Accepted | Repeated)
    except StorageFull:
        return False


async def check_reads(it: Engine, count: int) -> None:
    """All that was acknowledged can be read."""
    for number in range(count):
        assert await it.value(f"urn:full:{number}") == {"n": number, "text": TEXT}


async def check_all(it: Engine, refused: Proposal, count: int) -> None:
    """There is room again: the one that was refused is taken, and so are others, and nothing was lost or doubled."""
    assert isinstance(await it.space.decide(refused), Accepted | Repeated)
    assert isinstance(await it.space.decide(refused), Repeated)
    assert isinstance(await it.space.decide(write_of(it, count + 1)), Accepted)
    await check_reads(it, count + 2)
    walked = await it.space.read(lambda reader: list(chain.verify(SPACE, reader.history())))
    assert walked[-1].version == it.space.version == count + 3, "the access list came first"


@pytest.fixture(autouse=True)
def _small_write_ahead_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAL_PAGES_MAX", 40)


@pytest.mark.rule("COMMIT-10")
@pytest.mark.parametrize("room", range(187_000, 750_000, 37_000))
async def test_a_disk_that_says_full_stops_writes_and_not_reads(tmp_path: Path, room: int) -> None:
    """The disk is full at many different points: while a batch is written, or the log is moved into the database."""
    with faulty() as vfs:
        vfs.before = left = DiskCapacity(room)
        async with engine(SqliteStorage(tmp_path, vfs=vfs.name)) as it:
            count, refused = await fill(it)
            for _ in range(3):
                with pytest.raises(StorageFull):
                    await it.space.decide(refused)
                await check_reads(it, count)
            left.add(10 * DISK_BYTES)
            await check_all(it, refused, count)


# ---------------------------------------------------------------- the real thing


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two mebibytes, half of them taken by a file that can be removed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    except OSError as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    if mounted.returncode:
        pytest.skip(f"a small file system may not be mounted here: {mounted.stderr.decode().strip()}")
    try:
        (disk / "ballast").write_bytes(bytes(BALLAST_BYTES))
        yield disk
    finally:
        subprocess.run([shutil.which("umount") or "umount", str(disk)], check=True)  # noqa: S603


def make_room(disk: Path) -> None:
    (disk / "ballast").unlink()


@pytest.mark.rule("COMMIT-10")
async def test_a_full_disk_stops_writes_and_not_reads_until_there_is_room(small_disk: Path) -> None:
    async with engine(SqliteStorage(small_disk), workers=executors.threads(writers=2, readers=2)) as it:
        count, refused = await fill(it)
        assert count > 10
        for _ in range(3):
            with pytest.raises(StorageFull):
                await it.space.decide(refused)
            await check_reads(it, count)
        make_room(small_disk)
        await check_all(it, refused, count)


@pytest.mark.rule("COMMIT-10")
async def test_a_space_can_be_opened_and_read_on_a_full_disk(small_disk: Path) -> None:
    async with engine(SqliteStorage(small_disk)) as it:
        count, _ = await fill(it)
    fill_up(small_disk / "more ballast")
    async with engine(SqliteStorage(small_disk)) as it:
        await check_reads(it, count)
        refused = write_of(it, count)
        with pytest.raises(StorageFull):
            await it.space.decide(refused)
        await check_reads(it, count)
        make_room(small_disk)
        await check_all(it, refused, count)


def fill_up(file: Path) -> None:
    """Takes whatever is left, to the last byte."""
    with file.open("wb", buffering=0) as ballast:
        for size in (4_096, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                pass


@pytest.mark.rule("BLOB-1", "COMMIT-10")
async def test_a_blob_that_does_not_fit_is_told_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    data = bytes(range(256)) * 4 * 1024
    async with engine(SqliteStorage(small_disk)) as it:
        blobs = blobs_of(it, small_disk / SPACES / SPACE)
        with pytest.raises(StorageFull):
            await blobs.put(data)
        with pytest.raises(UnknownBlob):
            await blobs.stat(name_of(data))
        reached = (await blobs.begin(name_of(data), size=len(data))).offset
        assert 0 < reached < len(data)
        make_room(small_disk)
        kept = await blobs.put(data)
        assert (kept.size, kept.in_file) == (len(data), True)
        assert (await blobs.read(kept.hash, offset=reached, length=10)).data == data[reached : reached + 10]


def blobs_of(it: Engine, directory: Path) -> BlobStore:
    workers = executors.Inline()
    large = BlobDirectory(directory)
    return BlobStore(it.space, directory=directory, large=large, workers=workers, now=it.clock)


def status_of(address: str, path: str) -> int:
    try:
        with urllib.request.urlopen(f"{address.replace('ws', 'http', 1)}{path}", timeout=10) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.mark.rule("COMMIT-10")
async def test_a_server_on_a_full_disk_is_not_ready_says_so_and_tells_a_new_space(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (small_disk / "ballast").write_bytes(bytes(BALLAST_BYTES // 4))
    async with served(config_of(small_disk / "data")) as address:
        made = ServedSpace(address)
        await made.found()
        client = await made.enter()
        assert await asyncio.to_thread(status_of, address, "/readyz") == 200
        fill_up(small_disk / "more ballast")
        await asyncio.sleep(health.LOOK_SECONDS)
        assert await asyncio.to_thread(status_of, address, "/readyz") == 503
        assert await asyncio.to_thread(status_of, address, "/healthz") == 200
        other = ServedSpace(address)
        founder = await other.enter(other.key)
        await founder.commit(plain_set(other.space, other.roles))
        await founder.until(lambda: bool(founder.deferred))
        assert founder.deferred[0]["code"] == "storage_full"
        await founder.close()
        assert "disk_not_writable" in caplog.messages
        assert (await client.request("ping"))["version"] == 1
        (small_disk / "more ballast").unlink()
        await asyncio.sleep(health.LOOK_SECONDS)
        assert await asyncio.to_thread(status_of, address, "/readyz") == 200
        await made.close()


@pytest.mark.rule("COMMIT-10")
async def test_a_write_that_fails_is_in_the_log_once_and_so_is_the_next_one_that_works(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with engine(SqliteStorage(small_disk)) as it:
        count, refused = await fill(it)
        caplog.clear()
        for _ in range(3):
            with pytest.raises(StorageFull):
                await it.space.decide(refused)
        make_room(small_disk)
        await check_all(it, refused, count)
    assert caplog.messages == ["writes_again"]
