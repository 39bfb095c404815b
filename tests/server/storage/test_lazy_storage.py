"""Storage that makes no file before the first write of a space."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service_peers import ALICE, SPACE
from stemmadb.client.testing.founding import found
from stemmadb.protocol import errors
from stemmadb.server.open_store import open_store
from stemmadb.server.storage.port import NoDescriptors
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.lazy_storage import LazyStorage


@pytest.mark.rule("STORE-7", "ACL-3")
async def test_a_space_takes_no_file_before_its_access_list_is_written(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        space = await store.space(SPACE.did, create=True)
        assert (await space.read(lambda reader: reader.tip())).version == 0
        assert await space.in_turn(lambda log: log.owes_scrub) is False
        assert not (tmp_path / "spaces").exists()
        await found(store, os.urandom(32), {ALICE.did: "own"})
        (directory,) = (tmp_path / "spaces").iterdir()
        assert (directory / "space.db").exists()
        assert directory.name != SPACE.did
    with pytest.raises(errors.UnknownSpace):
        SqliteStorage(tmp_path).open(SPACE.did)


@pytest.mark.rule("STORE-7")
async def test_a_founded_space_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        did = await found(store, bytes(32), {ALICE.did: "own"})
        space = await store.space(did)
        assert space.version == 1
        assert (await space.read(lambda reader: reader.tip())).version == 1
    async with open_store(tmp_path) as store:
        assert (await store.space(did)).version == 1


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Every descriptor that the process may have is taken meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    taken = [highest]
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.rule("STORE-7")
async def test_a_file_that_cannot_be_opened_for_want_of_descriptors_says_so(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        did = await found(store, bytes(32), {ALICE.did: "own"})
    storage = LazyStorage(SqliteStorage(tmp_path))
    with no_descriptors(), pytest.raises(NoDescriptors):
        storage.open(did)
    storage.open(did).close()
    storage.close()
