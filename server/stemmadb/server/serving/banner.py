"""The banner: what a server prints once it listens, for a person or for a program."""

from __future__ import annotations

import os

from stemmadb.server.serving.app import Serving

EXAMPLE = """\
from stemmadb.client import connect
db = await connect("{url}")
space = await db.space("hello")
async with space.transaction() as tx:
    tx.set("urn:note:1", {{"text": "write the spec", "done": False}})"""


def human(serving: Serving) -> str:
    warnings = [f"WARNING     {warning}" for warning in serving.warnings]
    lines = [
        f"StemmaDB is listening on {serving.url}",
        f"data        {serving.data.resolve()}",
        f"identity    {serving.did}",
        f"SQLite      {serving.sqlite}",
        *([f"workers     {serving.workers}"] if serving.workers > 1 else []),
        *warnings,
        "",
        "Try it: paste this into `python -m asyncio`.",
        "",
        EXAMPLE.format(url=serving.url),
        "",
        "Stop it with Ctrl-C.",
    ]
    return "\n".join(lines)


def answer(serving: Serving) -> dict[str, object]:
    """The same for programs."""
    return {
        "listening": serving.url,
        "host": serving.host,
        "port": serving.port,
        "data": str(serving.data.resolve()),
        "did": serving.did,
        "sqlite": serving.sqlite,
        "pid": os.getpid(),
        **({"workers": serving.workers} if serving.workers > 1 else {}),
        "warnings": list(serving.warnings),
    }
