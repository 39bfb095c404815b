"""How large a run is: how many turns, how long each, against whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from benchmarks.harness import rows

T = TypeVar("T")
PEERS = (rows.ETCD, rows.POSTGRES, rows.REDIS, rows.NATS, rows.SHAREDB)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A quick run has few and short turns against etcd alone; a full one has the largest sizes too."""

    is_quick: bool = False
    is_full: bool = False
    reps: int = 4
    seconds: float = 0.9
    peers: tuple[str, ...] = PEERS

    def pick(self, *, quick: T, usual: T) -> T:
        return quick if self.is_quick else usual


USUAL = Plan()
QUICK = Plan(is_quick=True, reps=3, seconds=0.5, peers=(rows.ETCD,))
