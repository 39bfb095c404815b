"""The commands that HTTP needs: tokens, delegations, the DID of a space, and the list of spaces made anew."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from http_worlds import http_world
from served import config_of, served
from stemmadb.client.keys.ring import KeyRing
from stemmadb.protocol.model.access import text_form
from stemmadb.server.http import membership


def run(folder: Path, url: str, *words: str, code: int = 0) -> dict[str, Any]:
    """A command in a process of its own; its answer."""
    env = {**os.environ, "STEMMA_HOME": str(folder / "config"), "STEMMA_URL": url}
    command = [sys.executable, "-m", "stemmadb.client.cli", *words, "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert done.returncode == code, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.rule("TOKEN-1", "TOKEN-4")
async def test_tokens_are_made_used_and_revoked_by_commands(tmp_path: Path) -> None:
    async with http_world(tmp_path) as world:

        async def typed(*words: str, code: int = 0) -> dict[str, Any]:
            return await asyncio.to_thread(run, tmp_path, world.url, *words, code=code)

        await world.put("urn:a:1", 1)
        assert (await typed("space", "did", "todo"))["space"] == world.did
        token = (await typed("token", "--space", "todo", "--for", "15m"))["token"]
        assert (await world.get("/entity?id=urn:a:1", token=token)).status == 200
        assert (await world.put("urn:a:1", 2, token=token)).status == 403
        await typed("token", "revoke", token, "--space", "todo")
        assert (await world.get("/entity?id=urn:a:1", token=token)).status == 401
        robot = KeyRing(tmp_path / "config").make("robot")
        said = await typed("acl", "delegate", "robot", "read", "--prefix", "urn:a:", "--space", "todo")
        link = text_form.read(said["delegation"])
        guest = world.token_of(robot, delegations=[link])
        assert (await world.get("/entity?id=urn:a:1", token=guest)).json() == 1
        await typed("acl", "revoke", said["delegation"], "--space", "todo")
        assert (await world.get("/entity?id=urn:a:1", token=guest)).status == 404
        long = await typed("token", "--space", "todo", "--for", "25h", code=2)
        assert "at most 1440 minutes" in long["error"]["message"]
        server = (await typed("token", "--server", "--for", "10m"))["token"]
        assert (await world.get("//v1/spaces", token=server)).json()["spaces"][0]["space"] == world.did


async def test_reindex_makes_the_list_of_spaces_anew(tmp_path: Path) -> None:
    async with http_world(tmp_path) as world:
        did, me = world.did, world.db.identity.did
    data = tmp_path / "data"
    (data / membership.FILE).unlink()
    assert run(tmp_path, "ws://127.0.0.1:1", "space", "reindex", "--data", str(data)) == {"spaces": 1}
    found = await membership.SpaceMembership(data).of(me)
    assert found == [{"space": did, "role": "own"}]
    async with served(config_of(data)):
        pass
