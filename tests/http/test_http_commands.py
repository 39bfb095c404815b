"""The commands that HTTP needs: tokens, delegations, the DID of a space, and the list of spaces made anew."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from command_line import here
from http_worlds import http_world
from served import config_of, served
from space import ALICE, SPACE
from stemmadb.client import connect
from stemmadb.client.keys.ring import KeyRing
from stemmadb.protocol.model.access import text_form
from stemmadb.server.http.base import membership


def run(folder: Path, url: str, *words: str, code: int = 0) -> dict[str, Any]:
    """The answer of a command."""
    done = here(*words, "--url", url, "--config", folder / "config", "--json")
    assert done.code == code, done
    answer: dict[str, Any] = done.json
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
    assert here("space", "reindex", "--data", data, "--json").json == {"spaces": 1}
    found = await membership.SpaceMembership(data).of(me)
    assert found == [{"space": did, "role": "own"}]
    async with served(config_of(data)):
        pass


async def test_a_server_that_stops_has_written_the_lists_of_its_spaces(tmp_path: Path) -> None:
    lists = membership.SpaceMembership(tmp_path)
    for role in ("read", "own"):
        lists.listed(SPACE, {ALICE: role})
    await lists.settled()
    assert membership.rows(tmp_path) == [(ALICE, SPACE, "own")]
    data = tmp_path / "data"
    async with served(config_of(data)) as url, connect(url, config=tmp_path / "config") as db:
        first, me = await db.space("todo"), db.identity.did
        did = first.did
    assert membership.rows(data) == [(me, did, "own")]
    assert asyncio.all_tasks() == {asyncio.current_task()}
