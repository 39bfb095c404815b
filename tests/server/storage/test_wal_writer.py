"""WAL writers: the Python thread and the thread in C behave alike."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite.wal.group_wal import WalWriter
from stemmadb.server.storage.sqlite.wal.segments import OsFile
from stemmadb.server.storage.sqlite.wal.writer import NativeWalWriter, ThreadWalWriter, make_wal_writer

ALIGN_BYTES = 4_096
BLOCKS = 50


def native() -> Any:
    return pytest.importorskip("stemmadb._native").WalWriter()


KINDS: dict[str, Callable[[], WalWriter]] = {"thread": ThreadWalWriter, "compiled": lambda: NativeWalWriter(native())}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OsFile]:
    file = OsFile(tmp_path / "segment")
    yield file
    file.close()


async def write_block(writer: WalWriter, file: OsFile, block: bytes, at: int) -> BaseException | None:
    told: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    writer.write(file, block, at, told.set_result)
    assert not told.done(), "nobody is told before the call returns"
    return await told


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("kind", KINDS)
async def test_blocks_are_in_the_file_when_their_writer_says_so(kind: str, file: OsFile, tmp_path: Path) -> None:
    writer = KINDS[kind]()
    blocks = [bytes([number]) * ALIGN_BYTES * (1 + number % 3) for number in range(BLOCKS)]
    at = 0
    for block in blocks:
        assert await write_block(writer, file, block, at) is None
        at += len(block)
        assert (tmp_path / "segment").read_bytes() == b"".join(blocks)[:at]
    writer.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_write_that_fails_is_told_as_a_failure_of_the_storage(kind: str, tmp_path: Path) -> None:
    writer = KINDS[kind]()
    (tmp_path / "other").touch()
    file = OsFile(tmp_path / "segment")
    reading = os.open(tmp_path / "other", os.O_RDONLY)
    os.dup2(reading, file.descriptor)  # so that it cannot be written
    if file.direct is not None:
        os.dup2(reading, file.direct)
    os.close(reading)
    failure = await write_block(writer, file, bytes(ALIGN_BYTES), 0)
    assert isinstance(failure, StorageFailed)
    assert "Bad file descriptor" in str(failure)
    assert isinstance(await write_block(writer, file, bytes(ALIGN_BYTES), 0), StorageFailed), (
        "it goes on with the next block"
    )
    file.close()
    writer.close()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("kind", KINDS)
async def test_no_block_is_called_durable_that_was_not_synced(kind: str) -> None:
    """What is no file takes every write, and cannot be synced."""
    writer, nothing = KINDS[kind](), OsFile(Path(os.devnull))
    assert isinstance(await write_block(writer, nothing, bytes(ALIGN_BYTES), 0), StorageFailed)
    nothing.close()
    writer.close()


@pytest.mark.rule("COMMIT-1")
def test_a_write_past_the_memory_of_the_system_is_a_sync_as_well(file: OsFile) -> None:
    if file.direct is None:
        pytest.skip("the file system does not do it")
    assert fcntl.fcntl(file.direct, fcntl.F_GETFL) & os.O_DSYNC


async def test_what_cannot_be_written_past_the_memory_of_the_system_is_written_through_it(
    file: OsFile, tmp_path: Path
) -> None:
    """Such writes are of whole blocks: a file system may want larger ones."""
    writer = KINDS["compiled"]()
    assert await write_block(writer, file, b"odd", 0) is None
    assert (tmp_path / "segment").read_bytes() == b"odd"
    writer.close()


async def test_a_block_that_was_given_is_written_before_the_thread_in_c_ends(file: OsFile, tmp_path: Path) -> None:
    thread = native()
    thread.write(file.descriptor, -1, b"x" * ALIGN_BYTES, 0)
    with pytest.raises(RuntimeError, match="one block at a time"):
        thread.write(file.descriptor, -1, b"y" * ALIGN_BYTES, 0)
    thread.close()
    thread.close()
    assert (tmp_path / "segment").read_bytes() == b"x" * ALIGN_BYTES
    with pytest.raises(RuntimeError, match=r"none after close\(\)"):
        thread.write(file.descriptor, -1, b"y" * ALIGN_BYTES, 0)


async def test_a_compiled_thread_that_nobody_closes_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        native()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_the_compiled_one_is_used_where_it_was_built() -> None:
    try:
        import_module("stemmadb._native")
    except ImportError:
        expected: type[WalWriter] = ThreadWalWriter
    else:
        expected = NativeWalWriter
    made = make_wal_writer()
    assert type(made) is expected
    made.close()
