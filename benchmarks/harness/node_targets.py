"""What nodes on PostgreSQL are to reach."""

from __future__ import annotations

from benchmarks.harness.rows import OURS, SHAREDB, Key
from benchmarks.harness.target import Target, less, more, ratio, value

_MANY, _ONE = Key("nodes: many spaces", OURS, 256), Key("nodes: one space", OURS, 256)
_LARGE = Key("nodes: large space", OURS, 32)


def _beside(key: Key, variant: str) -> Key:
    return key._replace(scenario=f"{key.scenario}, {variant}")


def _ended(how: str, seconds: float) -> Target:
    measure = value("seconds", Key(f"nodes: after {how}", OURS, 1))
    return less("nodes: until a space is written again", f"after {how}", measure, first=seconds, goal=None, unit=" s")


NODES = (
    more(
        "nodes: 256 clients on 1,000 spaces",
        "commits/s over a transaction for each space",
        ratio("rate", _MANY, _beside(_MANY, "a transaction each")),
        first=5.0,
        goal=None,
    ),
    less(
        "nodes: 256 clients on 1,000 spaces",
        "CPU of PostgreSQL per commit",
        value("postgres_us", _MANY),
        first=60,
        goal=None,
        unit=" us",
    ),
    more(
        "nodes: 256 clients on 1,000 spaces",
        "commits/s by 2 nodes over 1",
        ratio("rate", _beside(_MANY, "2 nodes"), _MANY),
        first=1.4,
        goal=None,
    ),
    more(
        "nodes: 256 clients on one space, all at the wrong node",
        "commits/s over the right one",
        ratio("rate", _beside(_ONE, "all at the wrong node"), _ONE),
        first=0.8,
        goal=None,
    ),
    less(
        "nodes: 256 clients on one space, all at the wrong node",
        "p99 over the right one",
        ratio("p99_us", _beside(_ONE, "all at the wrong node"), _ONE),
        first=2.0,
        goal=None,
    ),
    more(
        "nodes: 256 clients on one space",
        "commits/s over SQLite",
        ratio("rate", _ONE, _beside(_ONE, "SQLite")),
        first=0.5,
        goal=None,
    ),
    more(
        "nodes: 256 clients on one space",
        "commits/s over sharedb on the same postgres",
        ratio("rate", _ONE, _ONE._replace(system=SHAREDB)),
        first=2.0,
        goal=None,
    ),
    less(
        "nodes: 32 clients on a large space, an open export",
        "p99 over without",
        ratio("p99_us", _beside(_LARGE, "an open export"), _LARGE),
        first=1.5,
        goal=None,
    ),
    _ended("kill -9", 4.0),
    _ended("SIGTERM", 1.0),
    _ended("a promotion", 5.0),
)
