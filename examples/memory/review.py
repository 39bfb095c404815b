"""A proposal waits an hour before a person can accept it, whatever a caller says.

    python examples/memory/review.py

Makes a data directory of its own and starts memory servers there, with clocks that are shifted.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any

from mcp_clients import agent_client, check, memory_server, new_secret, run

NS = "custom:review"
SAID = {
    "title": "Use PostgreSQL",
    "target": "database_policy",
    "rationale": "Two services write now",
    "evidence": ["issue 12"],
}
OLD_FILE = """---
title: Use MySQL
target: database_policy
created_at: 2020-01-01T00:00:00Z
---

An old proposal that waited for years
"""


async def accepted(secret: str, proposal: str) -> dict[str, Any]:
    async with agent_client(secret, NS) as client:
        return await client.call("accept_proposal", proposal_id=proposal)


def seconds_left(message: str) -> int:
    found = re.search(r"(\d+) s\b", message)
    return int(found[1]) if found else -1


def check_too_early(answer: dict[str, Any], most: int, when: str) -> None:
    left = seconds_left(answer["message"])
    is_refused = answer["status"] == "error" and answer["message"].startswith("PI1 Violation")
    check(is_refused and 0 < left <= most, f"{when}: {answer['message']}")


async def main(scratch: Path) -> None:
    data = scratch / "data"
    async with memory_server(data, "--cooldown", "0"):
        agent, admin = await new_secret("agent"), await new_secret("admin")
        async with agent_client(agent, NS) as client:
            proposal = (await client.call("propose_decision", **SAID))["proposal_id"]
            denied = await client.call("accept_proposal", proposal_id=proposal)
        check(denied["message"].startswith("Permission Denied"), f"as agent: {denied['message'][:60]}...")
        check_too_early(await accepted(admin, proposal), 3600, "as admin, at once")
    async with memory_server(data, "--cooldown", "0", "--test-clock", "+3500s"):
        check_too_early(await accepted(admin, proposal), 100, "after 3500 s")
    async with memory_server(data, "--cooldown", "0", "--test-clock", "+3600s"):
        done = await accepted(admin, proposal)
        check(done["status"] == "success", f"after 3600 s: {done['message']}")
        again = await accepted(admin, proposal)
        check(again["status"] == "error" and "already accepted" in again["message"], f"again: {again['message']}")
        file = scratch / "old.md"
        file.write_text(OLD_FILE, encoding="utf-8")
        (imported,) = (await run("memory", "proposals", "import", str(file), "--ns", NS, secret=agent))["imported"]
        check_too_early(await accepted(admin, imported["proposal_id"]), 3600, "imported with the date of 2020")
        broken = (await run("memory", "check"))["findings"]
        check(not broken, f"memory check: {len(broken)} findings")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
