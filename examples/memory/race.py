"""Agents that decide on one target at once: one wins, the others learn who won, and nothing is lost.

    stemmadb memory serve --cooldown 0 &
    python examples/memory/race.py --agents 20 --clients 2 --rounds 50

Uses the memory server of the data directory, with a secret that it makes. The cooldown must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
import uuid
from contextlib import AsyncExitStack
from typing import Any

from mcp_clients import AgentClient, agent_client, check, new_secret, run

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def said(target: str, number: int) -> dict[str, Any]:
    return {"title": f"Choice {number}", "target": target, "rationale": f"Agent {number} is sure that this is right"}


def winner_of(answers: list[dict[str, Any]]) -> str:
    made = [one["decision_id"] for one in answers if one["status"] == "success"]
    if len(made) != 1:
        check(False, f"one of {len(answers)} wins, not {len(made)}: {answers}")
    return str(made[0])


async def main(agents: int, clients: int, rounds: int) -> None:
    secret, ns = await new_secret("agent"), f"custom:race-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        opened: list[AgentClient] = [
            await stack.enter_async_context(agent_client(secret, ns)) for _ in range(clients)
        ]
        named: set[str] = set()
        began = time.perf_counter()
        for number in range(rounds):
            target = f"target {number}"
            recorders = [
                opened[agent % clients].call("record_decision", **said(target, agent)) for agent in range(agents)
            ]
            answers = await asyncio.gather(*recorders)
            winner = winner_of(answers)
            refused = [one["message"] for one in answers if one["status"] == "error"]
            named |= {found for message in refused for found in UUID.findall(message)}
            if any(winner not in message for message in refused):
                check(False, f"every refusal names {winner}: {refused}")
            superseders = [
                opened[which % clients].call("supersede_decision", **said(target, which), old_decision_ids=[winner])
                for which in range(2)
            ]
            named.add(winner_of(await asyncio.gather(*superseders)))
        spent = time.perf_counter() - began
        unknown = [one for one in sorted(named) if (await opened[0].call("history", id=one))["status"] != "success"]
    check(True, f"{rounds} rounds of {agents} recorders: 1 success and {agents - 1} refusals each, in {spent:.1f} s")
    check(True, f"{rounds} rounds of 2 superseders: one winner each")
    check(not unknown, f"each of the {len(named)} ids in answers is found by history")
    changes = [len((await run("memory", "history", one))["changes"]) for one in sorted(named)[:5]]
    check(min(changes) > 0, "and 5 of them by the command 'stemmadb memory history'")
    broken = (await run("memory", "check"))["findings"]
    check(not broken, f"memory check: {len(broken)} findings")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=50)
    asyncio.run(main(**vars(parser.parse_args())))
