"""What is to be reached: every row of the table in the design, with its two bounds."""

from __future__ import annotations

from benchmarks.harness.node_targets import NODES
from benchmarks.harness.rows import ETCD, OURS, POSTGRES, REDIS, Key
from benchmarks.harness.target import Target, flatness, less, more, ratio, value


def _commit(clients: int, peer: str, *, first: float | None, goal: float | None) -> Target:
    ours, theirs = Key("commit", OURS, clients), Key("commit", peer, clients)
    return Target(
        row=f"durable commits, {clients} clients",
        figure=f"commits/s over {peer}",
        measure=ratio("rate", ours, theirs),
        more_is_better=True,
        first=first,
        goal=goal,
    )


def _resumed(column: str, figure: str) -> Target:
    keys = [Key(f"resume: {watched} watched, 10 changed, ran on", OURS, 1) for watched in ("10,000", "1,000")]
    row = "resume after 1,000 missed commits, 10 of 10,000 watched changed"
    return less(row, f"{figure} over that with 1,000 watched", ratio(column, *keys), first=2.0, goal=2.0)


_FANOUT = (Key("fanout", OURS, 100), Key("fanout", ETCD, 100))
_PAST = Key("past_read", OURS, 8)
_PAST_SIZES = [Key(f"past_flat: {facts} facts", OURS, 1) for facts in ("10", "1,000", "100,000")]
_MEMORY = Key("memory", OURS, 1)
_WATCHERS = "100 watchers of one entity"
_SPARSE = "1,000 sessions watch 1,000 graphs, commits touch 10"
_PATCH = "patch of 100 B on a watched document of 1 MB"


def _large(kind: str) -> tuple[Key, Key]:
    return Key(f"large_patch: 1 MB, by {kind}", OURS, 2), Key(f"large_patch: 1 KB, by {kind}", OURS, 2)


TARGETS = (
    _commit(32, ETCD, first=1.5, goal=2.5),
    _commit(32, POSTGRES, first=1.0, goal=1.3),
    _commit(32, REDIS, first=None, goal=0.9),
    _commit(256, ETCD, first=1.9, goal=3.0),
    _commit(256, POSTGRES, first=1.6, goal=None),
    _commit(256, REDIS, first=None, goal=1.0),
    more(
        "durable commits, 256 clients on 256 spaces",
        "commits/s over the same on one space",
        ratio("rate", Key("commit_spaces", OURS, 256), Key("commit_spaces: one space", OURS, 256)),
        first=0.5,
        goal=1.0,
    ),
    *(
        less(
            f"server CPU per commit, {clients} clients",
            "over etcd",
            ratio("cpu_us_per_op", Key("commit", OURS, clients), Key("commit", ETCD, clients)),
            first=0.45,
            goal=0.25,
        )
        for clients in (32, 256)
    ),
    less(
        "one client, ack p50",
        "over etcd",
        ratio("p50_us", Key("commit", OURS, 1), Key("commit", ETCD, 1)),
        first=1.2,
        goal=0.8,
    ),
    less(_WATCHERS, "event p50 over etcd", ratio("p50_us", *_FANOUT), first=1.0, goal=0.8),
    less(_WATCHERS, "CPU per event over etcd", ratio("cpu_us_per_op", *_FANOUT), first=0.6, goal=0.3),
    less(
        _SPARSE,
        "CPU per commit over only those 10",
        ratio("cpu_us_per_op", Key("sparse", OURS, 1_000), Key("sparse: only those ten connected", OURS, 10)),
        first=2.0,
        goal=1.2,
    ),
    more(
        "read at an old version, 1,000 facts",
        "reads/s over etcd",
        ratio("rate", _PAST, Key("past_read", ETCD, 8)),
        first=1.2,
        goal=None,
    ),
    more(
        "read at an old version, 1,000 facts",
        "reads/s over postgres",
        ratio("rate", _PAST, Key("past_read", POSTGRES, 8)),
        first=None,
        goal=1.0,
    ),
    less(
        "read at an old version, 10 to 100,000 facts",
        "largest p50 over smallest",
        flatness("p50_us", _PAST_SIZES),
        first=2.0,
        goal=1.2,
    ),
    less(_PATCH, "CPU per commit over 1 KB", ratio("cpu_us_per_op", *_large("write")), first=3.0, goal=1.5),
    less(_PATCH, "event p50 over 1 KB", ratio("p50_us", *_large("event")), first=3.0, goal=1.5),
    _resumed("frame_bytes", "bytes"),
    _resumed("p50_us", "time"),
    less(
        "memory",
        "server RSS beyond an empty one, over the cache",
        value("rss_to_cache", _MEMORY),
        first=2.0,
        goal=2.0,
    ),
    less("disk", "bytes on disk over bytes sent", value("disk_ratio", _MEMORY), first=2.5, goal=1.5),
    less(
        "SDK: `applied` of a write", "p50", value("p50_us", Key("sdk_write", OURS, 1)), first=100, goal=30, unit=" us"
    ),
    less(
        "cold start to the first answer",
        "from the start of the process",
        value("start_ms", _MEMORY),
        first=1_000,
        goal=200,
        unit=" ms",
    ),
    *NODES,
)
