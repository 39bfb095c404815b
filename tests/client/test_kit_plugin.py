"""The plugin: a world for each test, a seed from the command line, and how to repeat a failure."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

LOADED = 'pytest_plugins = ["stemmadb.client.testing.plugin"]'
SCENARIO = """
import asyncio

async def scenario(world):
    space = await world.make_space("todo")
    channel = await world.dial("alice")(space)
    await channel.receive()
    await asyncio.sleep(3600)
    return world.seed

def test_it(stemma_world, stemma_seed):
    assert stemma_world.run(scenario) == stemma_seed
    {more}
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin needs no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_the_fixture_runs_a_scenario_in_virtual_time(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LOADED)
    pytester.makepyfile(SCENARIO.format(more="assert stemma_seed == 0"))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_a_failure_prints_its_seed_and_what_happened(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LOADED)
    pytester.makepyfile(SCENARIO.format(more="assert False"))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--stemma-seed=77")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*run it again with --stemma-seed=77", "*stemmadb trace*", "*alice connected 1"])


def test_a_random_seed_is_printed_too(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LOADED)
    pytester.makepyfile(SCENARIO.format(more="assert stemma_seed < 0"))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--stemma-seed=random")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r".*run it again with --stemma-seed=\d+"])


def test_a_seed_that_is_none_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(LOADED)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--stemma-seed=lucky")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--stemma-seed takes a number or 'random', and not 'lucky'*"])


def test_the_plugin_works_when_a_test_module_loads_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LOADED + "\n" + SCENARIO.format(more="assert stemma_seed == 0"))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
