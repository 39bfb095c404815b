"""`GET /v1/spaces` with several nodes: one table in the database, written by the owner of each space alone."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from node_processes import NodeProcess, url_of
from space import ALICE, BOB, SPACE
from stemmadb.client import Identity, connect
from stemmadb.protocol.model.access import access_token
from stemmadb.protocol.model.access.access_token import AccessToken
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.server.serving import server_identity
from stemmadb.server.serving.nodes.members import DatabaseMembership
from stemmadb.server.storage.postgres import PostgresStorage

PATIENCE = 60.0


@pytest.mark.rule("STORE-8")
def test_only_the_owner_of_a_space_replaces_who_is_in_its_list(url: str, storage: PostgresStorage) -> None:
    successor = PostgresStorage(url)
    log = storage.open(SPACE, create=True)
    storage.write_members({SPACE: {ALICE: "own", BOB: "read"}})
    successor.write_members({SPACE: {}})
    assert storage.spaces_of(BOB) == successor.spaces_of(BOB) == [{"space": SPACE, "role": "read"}]
    storage.write_members({SPACE: {ALICE: "read"}})
    assert successor.spaces_of(ALICE) == [{"space": SPACE, "role": "read"}]
    assert successor.spaces_of(BOB) == []
    log.close()
    taken = successor.open(SPACE)
    successor.write_members({SPACE: {BOB: "own"}})
    storage.write_members({SPACE: {ALICE: "own"}})  # late: it has lost the space
    assert storage.listed_spaces() == [{"space": SPACE, "principals": 1}]
    assert storage.spaces_of(BOB) == [{"space": SPACE, "role": "own"}]
    successor.write_members({SPACE: None})
    assert storage.listed_spaces() == []
    taken.close()
    successor.close()


async def test_the_last_list_of_a_space_is_what_gets_written(storage: PostgresStorage) -> None:
    log = await asyncio.to_thread(storage.open, SPACE, create=True)
    lists = DatabaseMembership(storage)
    for role in ("read", "write", "own"):
        lists.listed(SPACE, {ALICE: role})
        await asyncio.sleep(0)
    await lists.settled()
    assert await lists.of(ALICE) == [{"space": SPACE, "role": "own"}]
    assert await lists.all() == [{"space": SPACE, "principals": 1}]
    await asyncio.to_thread(log.close)


def listed(node: NodeProcess, server: Did, caller: Identity) -> list[dict[str, Any]]:
    """What the node answers the caller."""
    now = int(time.time() * 1_000)
    token = AccessToken(
        server=server,
        space=None,
        principal=caller.did,
        role="read",
        prefixes=("",),
        not_before=TimeMs(now - 60_000),
        expires=TimeMs(now + 600_000),
        nonce=bytes(16),
    )
    secret = access_token.write_text(access_token.issue(token, caller.sign), ())
    address = f"http{node.url.removeprefix('ws')}/v1/spaces"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {secret}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
        found: list[dict[str, Any]] = json.load(answer)["spaces"]
    return found


@pytest.mark.rule("STORE-8")
async def test_every_node_lists_the_spaces_of_all(url: str, tmp_path: Path) -> None:
    """Each node has a data directory of its own, as on two machines."""
    data = tmp_path / "one"
    nodes = [NodeProcess(url_of(url), data)]
    try:
        nodes.append(NodeProcess(url_of(url), tmp_path / "two", "--server-key", str(data / "server.key")))
        server = server_identity.keep(data).did
        owner, guest = Identity.from_seed(bytes(range(32))), Identity.from_seed(bytes(32))
        async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
            spaces = []
            for number, node in enumerate(nodes):
                database = await stack.enter_async_context(
                    connect(node.url, identity=owner, config=tmp_path / f"config{number}")
                )
                spaces.append(await database.space(f"space {number}"))
            await spaces[0].acl.set(guest.did, "write")
            wanted = sorted(space.did for space in spaces)
            for node in nodes:
                while [row["space"] for row in await asyncio.to_thread(listed, node, server, owner)] != wanted:
                    await asyncio.sleep(0.05)
                while not (rows := await asyncio.to_thread(listed, node, server, guest)):
                    await asyncio.sleep(0.05)
                assert rows == [{"space": spaces[0].did, "role": "write"}]
    finally:
        for node in nodes:
            node.close()
