"""Kinds of checks for the tests of the soak: some hold, and each of the others breaks in its own way."""

from __future__ import annotations

import os
import time
from typing import Final, NamedTuple

import pytest
from scripts.soaking.kinds import Counts, Goal, Kind, Kinds, reported
from scripts.soaking.state import FIRST_SEED

BAD_SEED: Final = FIRST_SEED
OPERATIONS: Final = 3
FAULTS: Final = 2


class Told(NamedTuple):
    """A report as checks elsewhere give it, with faults by their kinds."""

    operations: int
    faults: dict[str, int]


def plain(seed: int) -> Counts:
    return Counts(OPERATIONS, FAULTS)


def told(seed: int) -> Told:
    return Told(OPERATIONS, {"cut": 1, "kill": FAULTS - 1})


def wrong(seed: int) -> Counts:
    assert seed != BAD_SEED, f"seed {seed} is lost"
    return Counts(OPERATIONS)


def failing(seed: int) -> Counts:
    """What pytest raises is no `Exception`."""
    pytest.fail("as a test does")


def hanging(seed: int) -> Counts:
    print("this must not come between the lines of a summary", flush=True)
    time.sleep(600)
    return Counts(0)


def dying(seed: int) -> Counts:
    os._exit(3)


def numbered(seed: int) -> Counts:
    """Says in which process it is."""
    return Counts(os.getpid())


def who() -> Kinds:
    return _named(Kind("numbered", "Nothing", "-", None, numbered))


def good() -> Kinds:
    """All is well."""
    return _named(
        Kind("plain", "Nothing", "1 run", Goal(1_000, "runs"), plain),
        Kind("told", "Nothing either", "1 run", None, reported(told)),
    )


def bad() -> Kinds:
    """One holds, the others do not."""
    return good() | _named(
        Kind("wrong", "All seeds but one hold", "-", None, wrong),
        Kind("failing", "None holds", "-", None, failing),
        Kind("hanging", "It ends", "-", None, hanging, seconds_max=1.0),
        Kind("dying", "It lives", "-", None, dying),
    )


def mended() -> Kinds:
    """The one that was wrong is right now."""
    return good() | _named(Kind("wrong", "All seeds hold", "-", None, plain))


def _named(*kinds: Kind) -> dict[str, Kind]:
    return {kind.name: kind for kind in kinds}
