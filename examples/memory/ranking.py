"""What a search for decisions shows: the state of a decision counts more than how well its words match.

    python examples/memory/ranking.py
    python examples/memory/ranking.py --seconds 5

Makes a data directory of its own and starts a memory server there.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp_clients import AgentClient, agent_client, check, memory_server, new_secret

NS = "custom:ranking"
TARGET = "database_policy"


async def decide(client: AgentClient, rationale: str, *, target: str = TARGET, old: str | None = None) -> str:
    said: dict[str, Any] = {"title": "Policy", "target": target, "rationale": rationale}
    if old is None:
        done = await client.call("record_decision", **said)
    else:
        done = await client.call("supersede_decision", **said, old_decision_ids=[old])
    if done["status"] != "success":
        check(False, done["message"])
    return str(done["decision_id"])


async def search(client: AgentClient, query: str, mode: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.call("search_decisions", query=query, mode=mode))["results"]
    return found


async def three_versions(client: AgentClient) -> str:
    first = await decide(client, "Everything lives in flatfiles on the shared disk")
    second = await decide(client, "SQLite replaces them, one writer is enough", old=first)
    active = await decide(client, "PostgreSQL, since two services write", old=second)
    for mode in ("balanced", "strict"):
        found = await search(client, "flatfiles", mode)
        is_active = [one["id"] for one in found] == [active] and found[0]["score"] >= 1.0
        check(is_active, f"{mode}, a word of the oldest version only: {[(one['id'], one['score']) for one in found]}")
    in_audit = await search(client, "policy flatfiles", "audit")
    check(len(in_audit) == 3, f"audit shows {len(in_audit)} versions: {[one['status'] for one in in_audit]}")
    return active


async def person_first(agent: AgentClient, admin: AgentClient) -> None:
    text = "Releases happen on Tuesdays"
    await decide(agent, text, target="release_a")
    human = await decide(admin, text, target="release_b")
    found = await search(agent, "tuesdays", "balanced")
    lead = round(found[0]["score"] - found[1]["score"], 4)
    check(found[0]["id"] == human and lead == 0.1, f"of two equal decisions the person's is first by {lead}")


async def strict_under_change(agent: AgentClient, writer: AgentClient, active: str, seconds: float) -> None:
    """Another client supersedes all the time. What strict returns was active when the search was answered."""
    until, writes, searches = time.monotonic() + seconds, 0, 0
    lives = [active]  # in the order in which they were active
    is_over = False

    async def supersede() -> None:
        nonlocal writes
        while time.monotonic() < until:
            lives.append(await decide(writer, f"PostgreSQL, version {writes}", old=lives[-1]))
            writes += 1

    async def look() -> None:
        nonlocal searches
        while not is_over:
            known_before = len(lives)
            found = await search(agent, "PostgreSQL", "strict")
            searches += 1
            if any(one["status"] != "active" for one in found) or len(found) != 1:
                check(False, f"strict gave {found}")
            if found[0]["id"] in lives[: known_before - 1]:
                check(False, f"strict gave {found[0]['id']}, which was superseded before the search")

    looking = asyncio.create_task(look())
    await supersede()
    is_over = True
    await looking
    check(True, f"{searches} strict searches during {writes} supersedes in {seconds:g} s: active decisions only")


async def main(scratch: Path, seconds: float) -> None:
    async with memory_server(scratch / "data", "--cooldown", "0"):
        agent, admin = await new_secret("agent"), await new_secret("admin")
        async with (
            agent_client(agent, NS) as reader,
            agent_client(agent, NS) as writer,
            agent_client(admin, NS) as person,
        ):
            active = await three_versions(reader)
            await person_first(reader, person)
            await strict_under_change(reader, writer, active, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory), parser.parse_args().seconds))
