"""`stemmadb console --web` end to end: a page comes, is let in, reads, and is thrown out by the printed line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from command_line import MODULE, here
from console_pages import built, sealed
from http_worlds import HttpWorld, http_world
from stemmadb.client import Identity, connect
from stemmadb.client.keys.ring import KeyRing
from stemmadb.protocol.errors import StemmaError
from stemmadb.server.serving import build

PATIENCE = 30.0
BROWSER = """#!{python}
import os, sys, urllib.parse, urllib.request
file = urllib.request.url2pathname(urllib.parse.urlsplit(sys.argv[1]).path)
with open({told!r} + ".new", "w") as told:
    told.write(open(file).read())
    told.write("\\n%o %o %s" % (os.stat(file).st_mode, os.stat(os.path.dirname(file)).st_mode, file))
os.replace({told!r} + ".new", {told!r})
"""


class Opened:
    """The command, and what the browser that it started was given."""

    def __init__(self, process: asyncio.subprocess.Process, told: Path) -> None:
        self.process = process
        self._told = told
        self.port, self.code, self.role, self.file = 0, "", "", Path()

    async def browse(self) -> None:
        """Waits for the browser, and reads the file that it was sent to."""
        async with asyncio.timeout(PATIENCE):
            while not self._told.exists():
                assert self.process.returncode is None, "the command ended"
                await asyncio.sleep(0.02)
        page, modes = self._told.read_text().rsplit("\n", 1)
        found = re.search(r"/console/pair#(\d+)\.([\w-]+)\.(\w+)\.todo", page)
        assert found is not None
        self.port, self.code, self.role = int(found[1]), found[2], found[3]
        file_mode, directory_mode, file = modes.split(" ", 2)
        self.file = Path(file)
        assert stat.S_IMODE(int(file_mode, 8)) == 0o600
        assert stat.S_IMODE(int(directory_mode, 8)) == 0o700

    async def click(self, world: HttpWorld, identity: Identity, **changed: str) -> tuple[int, dict[str, Any]]:
        said = {"did": identity.did, "code": self.code, "signature": sealed(identity, self.code)} | changed
        body = json.dumps(said).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = (
            f"POST /pair HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nOrigin: http://127.0.0.1:{world.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.read()
        writer.close()
        return int(answer.split(b" ")[1]), json.loads(answer.partition(b"\r\n\r\n")[2])

    async def ended(self) -> tuple[int, str, str]:
        async with asyncio.timeout(PATIENCE):
            out, err = await self.process.communicate()
        return self.process.returncode or 0, out.decode(), err.decode()


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpWorld]:
    monkeypatch.setattr(build, "console_directory", lambda: built(tmp_path / "built"))
    async with http_world(tmp_path) as it:
        await it.put("urn:a:1", "seen")
        yield it


async def opened(world: HttpWorld, folder: Path, *words: str) -> Opened:
    told, script = folder / "told", folder / "browser"
    script.write_text(BROWSER.format(python=sys.executable, told=str(told)))
    script.chmod(0o700)
    where = ("--space", "todo", "--url", world.url, "--config", str(folder / "config"))
    process = await asyncio.create_subprocess_exec(
        *MODULE, "console", "--web", *words, *where,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | {"BROWSER": f"{script} %s"},
    )  # fmt: skip
    found = Opened(process, told)
    await found.browse()
    return found


def arguments_of_all() -> str:
    """What `ps aux` shows of every process."""
    shown = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            shown.append((directory / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(shown)


@pytest.mark.rule("CONSOLE-2")
@pytest.mark.parametrize("may_write", [False, True])
async def test_a_page_is_let_in_and_thrown_out(world: HttpWorld, tmp_path: Path, may_write: bool) -> None:
    it = await opened(world, tmp_path, *(["--write"] if may_write else []))
    assert it.role == ("write" if may_write else "read")
    assert it.code not in arguments_of_all()
    page = Identity.make()
    status, granted = await it.click(world, page)
    assert (status, granted["space"], granted["name"], granted["role"]) == (200, world.did, "todo", it.role)
    code, out, _ = await it.ended()
    assert code == 0
    assert re.search(rf"^Delegated {it.role} on todo to did:key:z6Mk…{page.did[-4:]} until \d\d:\d\d\.$", out, re.M)
    assert not it.file.parent.exists()
    shown = [granted["delegation"]]
    async with connect(world.url, identity=page, config=tmp_path / "page", delegations=shown) as db:
        space = await db.space(world.did)
        assert await space.get("urn:a:1") == "seen"
        name = re.search(r"^Revoke: stemmadb acl revoke (b3:\w+) --space todo$", out, re.M)
        assert name is not None
        where = ("--space", "todo", "--url", world.url, "--config", tmp_path / "config")
        done = await asyncio.to_thread(here, "acl", "revoke", name[1], *where)
        assert done.code == 0, done
        with pytest.raises(StemmaError):
            await space.at().get("urn:a:1")


@pytest.mark.rule("CONSOLE-2")
async def test_a_wrong_code_ends_the_command_with_a_line(world: HttpWorld, tmp_path: Path) -> None:
    it = await opened(world, tmp_path)
    page = Identity.make()
    status, answer = await it.click(world, page, code="x" * 22, signature=sealed(page, "x" * 22))
    assert status == 403
    assert "delegation" not in answer
    code, out, err = await it.ended()
    assert code != 0
    assert out == ""
    assert "The code is wrong" in err
    assert not it.file.parent.exists()


@pytest.mark.rule("CONSOLE-2")
async def test_who_does_not_own_the_space_lets_nobody_in(world: HttpWorld, tmp_path: Path) -> None:
    where = ("--space", world.did, "--url", world.url, "--config", tmp_path / "other")
    reader = KeyRing(tmp_path / "other").identity()
    await world.space.acl.set(reader.did, "read")
    done = await asyncio.to_thread(here, "console", "--web", *where, "--json")
    assert (done.code, done.error) == (4, "forbidden")


@pytest.mark.rule("CONSOLE-2", "CONSOLE-4")
async def test_a_server_without_the_console_says_so_in_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "console_directory", lambda: tmp_path / "nowhere")
    for settings, expected in (({}, "run make console"), ({"console": "off"}, "the setting console is off")):
        folder = tmp_path / str(len(settings))
        async with http_world(folder, **settings) as world:
            where = ("--space", "todo", "--url", world.url, "--config", folder / "config")
            done = await asyncio.to_thread(here, "console", "--web", *where)
            assert done.code == 3
            assert expected in " ".join(done.err.split())
