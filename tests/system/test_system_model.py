"""Two SDK clients over real sockets against a naive model: anything in any order, every answer the model's."""

from __future__ import annotations

from pathlib import Path

import pytest

from socket_model import Steps
from stemmadb.client import connect

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.rule("COMMIT-2", "COMMIT-8", "HISTORY-3", "BRANCH-1", "MERGE-1")
@pytest.mark.parametrize("chunk", range(3))
async def test_two_clients_over_sockets_find_what_the_model_holds(address: str, tmp_path: Path, chunk: int) -> None:
    conflicts = 0
    async with (
        connect(address, config=tmp_path) as one,
        connect(address, config=tmp_path) as other,
    ):
        for seed in range(8 * chunk, 8 * chunk + 8):
            steps = Steps(await one.space(f"model-{seed}"), await other.space(f"model-{seed}"), seed)
            await steps.run(50)
            conflicts += steps.conflicts
    assert conflicts > 10
