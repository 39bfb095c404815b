"""Work done without a server survives a crash of the app, and is sent exactly once when the server is back.

Start a server with `make serve`, then: python examples/offline_restart.py

The app lives three times here. In its second life it has no server, and is killed in the middle of its work.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

from stemmadb.client import connect

NOWHERE = "ws://127.0.0.1:1"
"""Nobody listens there: to the app that is the same as a train in a tunnel."""


async def first_life(url: str, journal: Path) -> str:
    """With a server. The journal learns the space, so that it can be opened without a server later."""
    async with connect(url, journal=journal) as db:
        space = await db.space("example-notes")
        async with space.transaction() as tx:
            tx.set("urn:note:1", {"text": "packed"}, blind=True)
        await tx.confirmed()
        return space.did


async def second_life(space_did: str, journal: Path) -> None:
    """Without a server, and killed without a warning once its work is in the journal."""
    async with connect(NOWHERE, journal=journal) as db:
        space = await db.space(space_did)
        for number, text in enumerate(("left the station", "in the tunnel"), start=2):
            async with space.transaction() as tx:
                tx.set(f"urn:note:{number}", {"text": text})
            await tx.journaled()  # from here on a crash cannot lose it
        print(f"offline: {space.status().connection}, {space.status().pending} commits wait; killed now", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def third_life(url: str, space_did: str, journal: Path) -> None:
    """With a server again: what the journal kept is sent by itself."""
    async with connect(url, journal=journal) as db:
        space = await db.space(space_did)
        await space.settled()
        print(f"back: {space.status().pending} commits wait, {len(space.rejected())} were refused")
        for id_, note in (await space.list("urn:note:*")).items():
            print(f"  {id_}: {note}")


async def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "journal"
        space_did = await first_life(url, journal)
        again = (sys.executable, __file__, "--second-life", space_did, "--journal", str(journal))
        process = await asyncio.create_subprocess_exec(*again)
        assert await process.wait() == -signal.SIGKILL
        await third_life(url, space_did, journal)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="ws://127.0.0.1:8420", help="the server")
    parser.add_argument("--second-life", metavar="SPACE", help="used by the script itself")
    parser.add_argument("--journal", type=Path, help="used by the script itself")
    given = parser.parse_args()
    asyncio.run(second_life(given.second_life, given.journal) if given.second_life else main(given.url))
