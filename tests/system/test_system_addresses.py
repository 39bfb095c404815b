"""The bound on connections from one address, as the setting of a real server."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from listening import request
from plain_world import ServedSpace
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.version import space_path

pytestmark = pytest.mark.asyncio(loop_scope="module")
PLACES = 4


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return {"connections_per_address_max": PLACES}


async def entered(served_space: ServedSpace) -> tuple[int, asyncio.StreamWriter]:
    """The status of a handshake, and its connection."""
    where = urlsplit(served_space.address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(request(space_path(Did(served_space.space))))
    line = await reader.readline()
    return int(line.split()[1]), writer


async def test_one_address_has_so_many_connections_and_a_place_that_is_left_is_free(
    served_space: ServedSpace,
) -> None:
    held: list[asyncio.StreamWriter] = []
    async with asyncio.timeout(60):
        while len(held) < PLACES:  # the connection that founded the space may still be going
            status, writer = await entered(served_space)
            if status == 101:
                held.append(writer)
            else:
                writer.close()
        status, refused = await entered(served_space)
        assert status == 429
        held[0].close()
        while status != 101:
            status, writer = await entered(served_space)
            held.append(writer)
    for one in (*held, refused):
        one.close()
