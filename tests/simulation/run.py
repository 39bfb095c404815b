"""One run of the simulation: `.venv/bin/python tests/simulation/run.py --seed 7 [--option apps=2] [--shrink]`."""

from __future__ import annotations

import argparse
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    TESTS = Path(__file__).parents[1]
    sys.path[0:1] = [str(TESTS), str(TESTS / "support"), str(TESTS / "checkers")]

import msgspec

from simulation.machine import Machine
from simulation.options import Options, changed, expand, shown
from simulation.report import Report
from simulation.shrinking import shrink
from stemmadb.client.testing import World
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.service.base.settings import ServiceSettings


def run(seed: int, seconds: float | None = None) -> Report:
    """One seed, as short as in the tests unless a length is given; raises at the first violation."""
    return run_with(seed, expand(seed, seconds))


def run_with(seed: int, options: Options) -> Report:
    """The same with these options; what is raised says how to repeat it."""
    world = World(
        seed,
        limits=msgspec.structs.replace(DEFAULTS, part_bytes_max=options.part_bytes),
        settings=ServiceSettings(feed_batches_max=options.feed_batches),
        engine=Settings(cache_bytes_max=options.cache_bytes),
        latency=options.latency,
        jitter=options.jitter,
        disk_seconds=options.disk_seconds,
    )
    try:
        with _quiet():
            return world.run(lambda world: Machine(world, options).run())
    except Exception as error:
        error.add_note(f"repeat it: tests/simulation/run.py --seed {seed} {shown(options)}")
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Refused commits that nobody awaits are many here."""
    logger = logging.getLogger("stemmadb.client")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def failure(seed: int, options: Options) -> tuple[str, str] | None:
    """What a run with these options fails with, and where; None if it does not. Another failure is not the same."""
    try:
        run_with(seed, options)
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return type(error).__name__, traceback.extract_tb(error.__traceback__)[-1].name
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, help="a longer run, of so much virtual time")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--shrink", action="store_true", help="look for the smallest options that fail as well")
    given = parser.parse_args()
    options = changed(expand(given.seed, given.seconds), given.option)
    if given.shrink:
        found = failure(given.seed, options)
        if found is None:
            print("it does not fail")
            return 0
        options = shrink(options, lambda smaller: failure(given.seed, smaller) == found)
    print(f"--seed {given.seed} {shown(options)}")
    print(run_with(given.seed, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
