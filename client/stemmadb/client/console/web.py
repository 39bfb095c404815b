"""`stemmadb console --web`: opens the web console in a browser and lets it in (CONSOLE-2)."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any, Final

from stemmadb.client import Space
from stemmadb.client.cli.connection import Target, run
from stemmadb.client.cli.context import CliContext
from stemmadb.client.console.pairing import CODE_BYTES, PairingRefused, new_code
from stemmadb.client.console.pairing_port import PairingPort
from stemmadb.client.dialing.urls import server_url
from stemmadb.client.keys import private_files
from stemmadb.client.keys.places import config_directory
from stemmadb.client.reading.delegation import DelegableRole, read_tokens
from stemmadb.protocol.errors import Forbidden, Unauthenticated, Unavailable
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did

LIFETIME: Final = timedelta(hours=8)
FILE_SECONDS: Final = 60.0
"""How long the file that leads to the page stays, if the page does not come."""
WAIT_SECONDS: Final = 300.0
"""How long the command waits for the click."""
LOOK_SECONDS: Final = 5.0
_FILE: Final = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={page}">
<title>StemmaDB</title>
<p><a href="{page}">Go on to the console</a>
"""


def open_web(shell: CliContext, target: Target, *, may_write: bool) -> dict[str, object]:
    """Waits for one click in the browser, and delegates for 8 hours what it asked for."""
    role: DelegableRole = "write" if may_write else "read"

    async def work(space: Space) -> dict[str, object]:
        return await _paired(shell, target, space, role)

    return run(target, work)


async def _paired(shell: CliContext, target: Target, space: Space, role: DelegableRole) -> dict[str, object]:
    name = target.space if target.space is not None and target.space != space.did else ""
    origin = _origin(target.url)
    mine = (await space.acl.get()).mine
    if mine.role != "own":
        raise Forbidden(action="let a page in", needs="own")
    await asyncio.to_thread(_check_console, origin)

    async def grant(did: Did) -> dict[str, Any]:
        until = datetime.now().astimezone() + LIFETIME
        text = await space.delegate(did, role, expires=until)
        expires = int(until.timestamp() * 1_000)
        return {"space": space.did, "name": name, "role": role, "expires": expires, "delegation": text, "did": did}

    port = PairingPort(origin, new_code(os.urandom(CODE_BYTES)), grant)
    page = (await port.open()).page(role, name or space.did)
    with _leading(page, target.config) as file:
        removing = asyncio.create_task(_removed(file, port))
        threading.Thread(target=_browse, args=(file,), daemon=True).start()
        shell.warn(f"A page opens in your browser. Choose Allow there. If none opens, open {file}")
        try:
            granted = await port.paired(WAIT_SECONDS)
        except PairingRefused as refused:
            raise Unauthenticated(str(refused), why=str(refused)) from None
        finally:
            removing.cancel()
    return _said(shell, target, granted)


def _said(shell: CliContext, target: Target, granted: dict[str, Any]) -> dict[str, object]:
    until = datetime.fromtimestamp(granted["expires"] / 1_000).astimezone()
    token = reference.write(delegation.name_of(read_tokens((granted["delegation"],))[0]))
    did, role = granted["did"], granted["role"]
    shell.say(f"Delegated {role} on {granted['name'] or granted['space']} to {_short(did)} until {until:%H:%M}.")
    shell.say(f"Revoke: stemmadb acl revoke {token} --space {target.space}")
    return {"space": granted["space"], "did": did, "role": role, "expires": granted["expires"], "revoke": token}


def _short(did: str) -> str:
    return f"{did[:12]}…{did[-4:]}"


def _origin(url: str) -> str:
    """The origin of the server's pages, as a browser writes it."""
    scheme, _, rest = server_url(url).partition("://")
    return f"{'https' if scheme == 'wss' else 'http'}://{rest.partition('/')[0]}"


def _check_console(origin: str) -> None:
    """A server without the console says so; the user need not find it out in the browser."""
    if origin.startswith("https:"):
        return  # the browser knows better which certificates are good
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{origin}/console/pair", timeout=LOOK_SECONDS):
            return
    except urllib.error.HTTPError as answer:
        said = answer.read(4_096).decode(errors="replace").strip()
        why = said if answer.code == 503 else "It has no web console, or the setting console is off."
        raise Unavailable(f"The server at {origin} does not show the console. {why}") from None
    except OSError as failed:
        raise Unavailable(f"The server at {origin} does not show the console: {failed}.") from None


@contextmanager
def _leading(page: str, config: Path | None) -> Iterator[Path]:
    """A file that leads to the page: an argument of a command could be read by everybody on the machine."""
    above = config or config_directory()
    private_files.make_directory(above)
    directory = Path(tempfile.mkdtemp(prefix="pairing-", dir=above))  # of mode 0700
    try:
        file = directory / "open.html"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(_FILE.format(page=escape(page)))
        yield file
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _removed(file: Path, port: PairingPort) -> None:
    """Removes the file when the page has come, or after a while."""
    try:
        async with asyncio.timeout(FILE_SECONDS):
            await port.has_come.wait()
    except TimeoutError:
        pass
    file.unlink(missing_ok=True)


def _browse(file: Path) -> None:
    webbrowser.open(file.as_uri())
