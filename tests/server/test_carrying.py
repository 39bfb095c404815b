"""Carrying pages to the disk: the thread of Python and the compiled one are told apart by nobody."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from stemmadb.server.carrying import NativeCarrier, ThreadCarrier, carrier
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.sqlite.daybook import Carrier
from stemmadb.server.storage.sqlite.daybook_files import OsFile

BLOCK = 4_096
PAGES = 50


def native() -> Any:
    return pytest.importorskip("stemmadb.server._native").Carrier()


KINDS: dict[str, Callable[[], Carrier]] = {"thread": ThreadCarrier, "compiled": lambda: NativeCarrier(native())}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OsFile]:
    file = OsFile(tmp_path / "volume")
    yield file
    file.close()


async def carried(carrier_: Carrier, file: OsFile, page: bytes, at: int) -> StorageFailed | None:
    told: asyncio.Future[StorageFailed | None] = asyncio.get_running_loop().create_future()
    carrier_.carry(file, page, at, told.set_result)
    assert not told.done(), "nobody is told before the call returns"
    return await told


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("kind", KINDS)
async def test_pages_are_in_the_file_when_their_carrier_says_so(kind: str, file: OsFile, tmp_path: Path) -> None:
    carrier_ = KINDS[kind]()
    pages = [bytes([number]) * BLOCK * (1 + number % 3) for number in range(PAGES)]
    at = 0
    for page in pages:
        assert await carried(carrier_, file, page, at) is None
        at += len(page)
        assert (tmp_path / "volume").read_bytes() == b"".join(pages)[:at]
    carrier_.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_write_that_fails_is_told_as_a_failure_of_the_storage(kind: str, tmp_path: Path) -> None:
    carrier_ = KINDS[kind]()
    (tmp_path / "other").touch()
    file = OsFile(tmp_path / "volume")
    reading = os.open(tmp_path / "other", os.O_RDONLY)
    os.dup2(reading, file.descriptor)  # so that it cannot be written
    if file.direct is not None:
        os.dup2(reading, file.direct)
    os.close(reading)
    failure = await carried(carrier_, file, bytes(BLOCK), 0)
    assert isinstance(failure, StorageFailed)
    assert "Bad file descriptor" in str(failure)
    assert isinstance(await carried(carrier_, file, bytes(BLOCK), 0), StorageFailed), "it goes on with the next page"
    file.close()
    carrier_.close()


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("kind", KINDS)
async def test_no_page_is_called_durable_that_was_not_synced(kind: str) -> None:
    """What is no file takes every write, and cannot be synced."""
    carrier_, nothing = KINDS[kind](), OsFile(Path(os.devnull))
    assert isinstance(await carried(carrier_, nothing, bytes(BLOCK), 0), StorageFailed)
    nothing.close()
    carrier_.close()


@pytest.mark.rule("COMMIT-1")
def test_a_write_past_the_memory_of_the_system_is_a_sync_as_well(file: OsFile) -> None:
    if file.direct is None:
        pytest.skip("the file system does not do it")
    assert fcntl.fcntl(file.direct, fcntl.F_GETFL) & os.O_DSYNC


async def test_what_cannot_be_written_past_the_memory_of_the_system_is_written_through_it(
    file: OsFile, tmp_path: Path
) -> None:
    """Such writes are of whole blocks: a file system may want larger ones."""
    carrier_ = KINDS["compiled"]()
    assert await carried(carrier_, file, b"odd", 0) is None
    assert (tmp_path / "volume").read_bytes() == b"odd"
    carrier_.close()


async def test_a_page_that_was_given_is_written_before_the_compiled_thread_ends(file: OsFile, tmp_path: Path) -> None:
    thread = native()
    thread.carry(file.descriptor, -1, b"x" * BLOCK, 0)
    with pytest.raises(RuntimeError, match="one page at a time"):
        thread.carry(file.descriptor, -1, b"y" * BLOCK, 0)
    thread.close()
    thread.close()
    assert (tmp_path / "volume").read_bytes() == b"x" * BLOCK
    with pytest.raises(RuntimeError, match="none after the end"):
        thread.carry(file.descriptor, -1, b"y" * BLOCK, 0)


async def test_a_compiled_thread_that_nobody_closes_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        native()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_the_compiled_one_is_used_where_it_was_built() -> None:
    try:
        import_module("stemmadb.server._native")
    except ImportError:
        expected: type[Carrier] = ThreadCarrier
    else:
        expected = NativeCarrier
    made = carrier()
    assert type(made) is expected
    made.close()
