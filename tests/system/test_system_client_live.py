"""Clients over real sockets: live watches in both subprotocols, large documents, long streams, the first example."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from client_processes import Server, running
from client_proxy import Proxy
from client_stage import Seen, settings_of
from stemmadb.client import Space, connect
from stemmadb.client.dialing.websocket import WebSocketDial
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol

pytestmark = pytest.mark.asyncio(loop_scope="module")
README = Path(__file__).parents[2] / "README.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
STREAMED = 2_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with running(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def line(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.address) as made:
        yield made


@pytest.mark.rule("WIRE-1", "SYNC-1", "NURSERY-4")
@pytest.mark.parametrize(("mine", "theirs"), [(MSGPACK, MSGPACK), (MSGPACK, JSON), (JSON, MSGPACK)])
async def test_own_writes_are_seen_at_once_and_those_of_others_live(
    server: Server, tmp_path: Path, mine: Subprotocol, theirs: Subprotocol
) -> None:
    config, dials = tmp_path / "config", [WebSocketDial(server.url, subprotocol=one) for one in (mine, theirs)]
    async with (
        connect(server.url, config=config, dial=dials[0]) as left,
        connect(server.url, config=config, dial=dials[1]) as right,
    ):
        one, other = await left.space("live"), await right.space("live")
        async with one.watch("urn:a:*") as my_changes, other.watch("urn:a:*") as their_changes:
            own, others = Seen(my_changes), Seen(their_changes)
            await own.until({})
            await others.until({})
            async with one.transaction() as tx:
                tx.set("urn:a:1", {"n": 1, "big": 2**60, "half": 0.5})
            assert tx.status == "pending"
            own.take(await my_changes.next())
            assert own.shown == {"urn:a:1": {"n": 1, "big": 2**60, "half": 0.5}}
            await others.until({"urn:a:1": {"n": 1, "big": 2**60, "half": 0.5}})
            assert others.version == await tx.confirmed()
            async with other.transaction() as tx:
                tx.increment("urn:a:1", "/n")
                tx.set("urn:a:2", "two")
            assert await other.get("urn:a:2") == "two"
            await own.until({"urn:a:1": {"n": 2, "big": 2**60, "half": 0.5}, "urn:a:2": "two"})
            async with other.transaction() as tx:
                tx.delete("urn:a:1")
            await own.until({"urn:a:2": "two"})


@pytest.mark.rule("SYNC-3")
async def test_a_small_change_of_a_large_document_costs_few_bytes_on_both_lines(
    server: Server, line: Proxy, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    lines = [f"{number:05} " + "x" * 994 for number in range(5_000)]
    document = {"title": "long", "lines": lines}
    async with (
        Proxy(server.address) as their_line,
        connect(line.url, config=config) as left,
        connect(their_line.url, config=config) as right,
    ):
        one = await left.space("large")
        async with one.transaction() as tx:
            tx.set("urn:doc:1", document)
        await tx.confirmed()
        other = await right.space(one.did)
        async with one.watch("urn:doc:*") as mine, other.watch("urn:doc:*") as theirs:
            await mine.next()
            assert (await theirs.next()).entered == {"urn:doc:1": document}
            assert their_line.down.bytes > 5_000_000
            ways = (line.up, line.down, their_line.up, their_line.down)
            before = [way.bytes for way in ways]
            async with one.transaction() as tx:
                tx.patch("urn:doc:1", [{"op": "replace", "path": "/title", "value": "longer"}])
            (changed,) = (await theirs.next()).updated.values()
            await tx.confirmed()
            assert changed == {"title": "longer", "lines": lines}
            assert max(way.bytes - was for way, was in zip(ways, before, strict=True)) < 1_500


@pytest.mark.rule("SYNC-6", "NURSERY-4")
async def test_thousands_of_commits_stream_and_wait_where_there_is_no_room(
    server: Server, line: Proxy, tmp_path: Path
) -> None:
    config, settings = tmp_path / "config", settings_of({"unsent_bytes_max": 64 * 1024})
    async with (
        connect(line.url, config=config, settings=settings) as left,
        connect(server.url, config=config) as right,
    ):
        one = await left.space("stream")
        other = await right.space(one.did)
        async with one.transaction() as tx:
            tx.set("urn:count", {"n": 0})
        await tx.confirmed()
        async with other.watch("urn:*") as changes:
            seen = Seen(changes)
            await seen.until({"urn:count": {"n": 0}})
            line.up.hold()
            await pour(one)
            assert one.status().pending == STREAMED
            assert waiting(one) > STREAMED // 4
            line.up.release()
            await seen.until({"urn:count": {"n": STREAMED}})
            await one.settled()
        assert (one.status().pending, waiting(one), one.rejected()) == (0, 0, [])


async def pour(space: Space) -> None:
    """More than sockets hold, without waiting for anything but a turn of the loop."""
    for number in range(STREAMED):
        async with space.transaction(note="x" * 8_000) as tx:
            tx.increment("urn:count", "/n", blind=True)
        if number % 50 == 0:
            await asyncio.sleep(0)


def waiting(space: Space) -> int:
    """How many commits were not handed to the connection yet."""
    return len(space._core.session._outgoing)


async def test_the_first_example_of_the_readme_runs_for_a_new_user(server: Server, tmp_path: Path) -> None:
    code = EXAMPLE.findall(README.read_text())[0].replace("ws://127.0.0.1:8420", server.url)
    body = "".join(f"    {line}\n" for line in code.splitlines())
    script = tmp_path / "hello.py"
    script.write_text(f"import asyncio\n\nasync def main():\n{body}\n\nasyncio.run(main())\n")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=PIPE, stderr=PIPE, env=environment, cwd=tmp_path
    )
    async with asyncio.timeout(60):
        said, wrong = await process.communicate()
    assert wrong == b""
    note = {"text": "write the spec", "done": False}
    shown, merged, past = said.decode().splitlines()
    assert shown == f"watch:  {{'urn:note:1': {note}}}"
    assert merged.startswith("merged:")
    assert "urn:note:2" in merged
    assert "urn:note:2" not in past
    assert {path.name for path in tmp_path.iterdir()} == {"hello.py", ".config"}
