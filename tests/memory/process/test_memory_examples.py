"""The programs of examples/memory run as a person runs them. Each checks what it shows and ends with 1 if not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_agents import Agents, agents_in

EXAMPLES = Path(__file__).parents[3] / "examples" / "memory"


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    with agents_in(tmp_path) as made:
        yield made


def run(agents: Agents, *words: str) -> list[str]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, *words],
        cwd=EXAMPLES,
        env=agents.environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines)
    return lines


@pytest.mark.rule("MCP-1")
@pytest.mark.rule("MCP-2")
def test_agents_that_race_for_a_target_have_one_winner(agents: Agents) -> None:
    agents.serve("--cooldown", "0")
    lines = run(agents, "race.py", "--agents", "20", "--clients", "2", "--rounds", "4")
    assert "memory check: 0 findings" in lines[-1]


@pytest.mark.rule("MCP-4")
@pytest.mark.rule("MCP-5")
def test_a_proposal_waits_for_its_hour(agents: Agents) -> None:
    assert "after 3600 s: Proposal" in "".join(run(agents, "review.py"))


@pytest.mark.rule("MCP-7")
@pytest.mark.rule("MCP-8")
def test_a_search_ranks_by_state(agents: Agents) -> None:
    assert "active decisions only" in run(agents, "ranking.py", "--seconds", "1")[-1]
