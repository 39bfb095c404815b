"""Options: everything that a seed decides about a run before it begins; another seed is another kind of world."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

import msgspec

from stemmadb.client.testing.seeds import stream

FAULTS: Final = (
    "cut",
    "drop",
    "half_open",
    "offline",
    "silence",
    "stall",
    "slow",
    "delay",
    "crash",
    "silent_crash",
    "crash_before_append",
    "crash_after_append",
    "fail_append",
    "lose_sync",
    "restart",
    "jump",
    "kill_app",
    "close_app",
    "slow_journal",
    "fail_journal",
    "copy_journal",
    "restore",
)
"""Kinds of faults; what each does is in `faults` and `machine`."""
WORK: Final = (
    "write",
    "stack",
    "branch",
    "transact",
    "watch",
    "retry",
    "read",
    "past",
    "past_watch",
    "merge",
    "undo",
    "revert",
    "erase",
    "compact",
    "access",
    "delegate",
)
"""Kinds of work; see `worker`."""
ALWAYS: Final = ("write", "watch", "read")
"""Work without which a run shows little."""
SHARE: Final = 0.55
"""How likely it is that a kind of fault or work is part of a run: a few at a time find what all together hide."""


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run goes."""

    apps: int
    seconds: float
    """Of virtual time until the world heals."""
    pace: float
    """Seconds between two deeds of a worker, on average."""
    workers: int
    """In each life of an app."""
    latency: float
    jitter: float
    disk_seconds: float
    """What an append takes."""
    fault_every: float
    """Seconds between two faults, on average."""
    longest: float
    """Seconds that a fault lasts, at most."""
    life_seconds: float
    """Of an app, on average, if apps are killed or closed."""
    journals: float
    """The share of apps that have one."""
    json: float
    """The share of apps that speak JSON."""
    part_bytes: int
    """What a part of a frame holds, at most."""
    feed_batches: int
    """Recent batches that the server keeps for those who come back."""
    cache_bytes: int
    """Heads that the server keeps in memory."""
    faults: tuple[str, ...]
    work: tuple[str, ...]


def expand(seed: int, seconds: float | None = None) -> Options:
    """The options of a seed. A run of so many seconds if given, else a short one."""
    random = stream(seed, "options")
    short = seconds is None
    return Options(
        apps=random.choice((2, 2, 3)) if short else random.randint(2, 5),
        seconds=random.choice((0.4, 0.8, 1.2, 1.6)) if seconds is None else seconds,
        pace=random.choice((0.03, 0.06, 0.12)) if short else random.choice((0.05, 0.1, 0.3)),
        workers=random.choice((1, 2)),
        latency=random.choice((0.001, 0.005, 0.02)),
        jitter=random.choice((0.0, 0.005, 0.05)),
        disk_seconds=random.choice((0.0, 0.002, 0.02)),
        fault_every=random.choice((0.05, 0.15, 0.3, 1.0)) * (1 if short else 3),
        longest=random.choice((0.3, 1.0, 3.0)),
        life_seconds=random.choice((0.4, 1.0, 3.0)) * (1 if short else 4),
        journals=random.choice((0.0, 0.6, 1.0)),
        json=random.choice((0.0, 0.0, 0.5)),
        part_bytes=random.choice((1 << 20, 1 << 20, 600)),
        feed_batches=random.choice((4096, 4096, 3)),
        cache_bytes=random.choice((1 << 26, 1 << 26, 2_000)),
        faults=_some(random, FAULTS),
        work=_some(random, WORK, ALWAYS),
    )


def _some(random: Random, kinds: Iterable[str], always: Iterable[str] = ()) -> tuple[str, ...]:
    return tuple(kind for kind in kinds if (random.random() < SHARE) | (kind in always))


def changed(options: Options, pairs: Iterable[str]) -> Options:
    """The same with some of them given as `name=value`; kinds are given as `work=write,watch`."""
    given: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        given[name] = tuple(filter(None, text.split(","))) if name in ("faults", "work") else text
    return msgspec.convert(msgspec.to_builtins(options) | given, Options, strict=False)


def shown(options: Options) -> str:
    """As they are given on the command line."""
    fields: dict[str, Any] = msgspec.to_builtins(options)
    words = {name: ",".join(value) if isinstance(value, list | tuple) else value for name, value in fields.items()}
    return " ".join(f"--option {name}={value}" for name, value in words.items())
