"""What newcomers do with the blocking client: give it a coroutine function, name a key file by its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from served import Process
from stemmadb.client import Identity
from stemmadb.client.keys.key_files import to_pem
from stemmadb.client.sync import Transaction, connect


async def write(tx: Transaction) -> None:
    tx.set("urn:a", 1)


def test_a_coroutine_function_is_not_taken_for_one_that_wrote_nothing(tmp_path: Path) -> None:
    server = Process(tmp_path / "data")
    server.start()
    with connect(server.address, config=tmp_path / "config") as db:
        space = db.space("todo")
        with pytest.raises(TypeError, match="plain function"):
            space.transact(write)  # type: ignore[unused-coroutine]  # that is the mistake
        assert space.transact(lambda tx: tx.get("urn:a")) is None
    assert server.stop() == 0


def test_a_key_file_is_named_by_its_path(tmp_path: Path) -> None:
    robot = Identity.make()
    file = tmp_path / "robot.key"
    file.write_bytes(to_pem(robot))
    file.chmod(0o600)
    with connect(identity=file, config=tmp_path) as db:
        assert db.identity.did == robot.did
