"""A node that does not know whether it is alive says nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from node_processes import url_of
from served import config_of, served
from stemmadb.client import Identity, connect
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.postgres.node import Node


def version_of(url: str, space: str) -> int:
    storage = PostgresStorage(url, read_only=True)
    try:
        with storage.open(space).reader() as reader:  # type: ignore[arg-type]  # a DID
            return int(reader.tip().version)
    finally:
        storage.close()


@pytest.mark.rule("STORE-8")
async def test_no_verdict_leaves_a_node_whose_lease_has_lapsed_though_the_commit_is_durable(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(60), served(config_of(tmp_path / "data", storage=url_of(url))) as address:
        identity = Identity.from_seed(bytes(range(32)))
        async with connect(address, identity=identity, config=tmp_path / "config") as database:
            space = await database.space("lapsed")
            async with space.transaction() as tx:
                tx.set("urn:x", 1)
            await tx.confirmed()
            with monkeypatch.context() as patched:
                patched.setattr(Node, "is_alive", property(lambda _: False))
                async with space.transaction() as tx:
                    tx.set("urn:x", 2)
                confirmed = asyncio.ensure_future(tx.confirmed())
                while await asyncio.to_thread(version_of, url, space.did) < 3:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.2)
                assert not confirmed.done()
            await confirmed
            assert await asyncio.to_thread(version_of, url, space.did) == 3
