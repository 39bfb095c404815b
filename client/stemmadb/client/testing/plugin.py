"""The pytest plugin: a world for each test, and the seed that repeats a failure.

Load it with `pytest_plugins = ["stemmadb.client.testing.plugin"]` in the topmost conftest.py, or with `pytest -p`.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from typing import Final

import pytest

from stemmadb.client.testing.world import World

OPTION: Final = "--stemma-seed"
RANDOM: Final = "random"
SEED_MAX: Final = 1 << 32
_LINES_TOLD: Final = 40
"""The last lines of the trace that a failure shows."""
_WORLD: Final = pytest.StashKey[World]()
_SEED: Final = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("stemmadb").addoption(
        OPTION, default="0", metavar="SEED", help=f"the seed of stemma_world: a number (0), or '{RANDOM}'"
    )


def pytest_configure(config: pytest.Config) -> None:
    given = str(config.getoption(OPTION, default="0"))
    if given != RANDOM and not given.isdecimal():
        raise pytest.UsageError(f"{OPTION} takes a number or '{RANDOM}', and not {given!r}")
    config.stash[_SEED] = secrets.randbelow(SEED_MAX) if given == RANDOM else int(given)


@pytest.fixture
def stemma_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run: `--stemma-seed`, 0 if none was given."""
    return request.config.stash[_SEED]


@pytest.fixture
def stemma_world(request: pytest.FixtureRequest, stemma_seed: int) -> World:
    """A world of its own for the test, which runs a scenario in virtual time: `stemma_world.run(scenario)`.

    In a test on an ordinary loop, as with pytest-asyncio: `async with stemma_world as world`.
    """
    world = World(seed=stemma_seed)
    request.node.stash[_WORLD] = world
    return world


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows how to repeat it, and what happened last in its world."""
    report = yield
    world = item.stash.get(_WORLD, None)
    if report.failed and world is not None:
        report.sections.append(("stemmadb seed", f"run it again with {OPTION}={world.seed}"))
        report.sections.append(("stemmadb trace", "\n".join([*world.trace.lines][-_LINES_TOLD:])))
    return report
