"""Time over real sockets: a challenge that is too old opens nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from plain_world import ServedSpace
from served import config_of, served
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server import open_store as opening
from stemmadb.server.open_store import now

CHALLENGE_MS = 10_000


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize(("late_ms", "is_open"), [(CHALLENGE_MS - 1_000, True), (CHALLENGE_MS + 1_000, False)])
async def test_a_challenge_can_be_used_for_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late_ms: int, is_open: bool
) -> None:
    ahead = 0
    monkeypatch.setattr(opening, "now", lambda: TimeMs(now() + ahead))
    async with served(config_of(tmp_path / "data")) as address:
        served_space = ServedSpace(address)
        await served_space.found()
        client = served_space.client()
        await client.greet()
        ahead = late_ms
        await client.send(client.opening())
        if is_open:
            assert (await client.pump())["type"] == "sync"
        else:
            assert (await client.farewell()).farewell["code"] == "unauthenticated"
        await served_space.close()
