"""What a server says once it listens, to a person or to a program."""

from __future__ import annotations

import os

from stemmadb.server.serving.app import Serving

EXAMPLE = """\
  async with connect("{url}") as db:
      space = await db.space("todo")
      async with space.transaction() as tx:
          tx.set("urn:todo:1", {{"title": "write the spec", "done": False}})"""


def human(serving: Serving) -> str:
    warnings = [f"WARNING     {warning}" for warning in serving.warnings]
    lines = [
        f"StemmaDB listens on {serving.url}",
        f"data        {serving.data.resolve()}",
        f"identity    {serving.did}",
        f"SQLite      {serving.sqlite}",
        *warnings,
        "",
        "Try it (from stemmadb.client import connect), inside an async function:",
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
        "warnings": list(serving.warnings),
    }
