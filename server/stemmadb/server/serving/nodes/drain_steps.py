"""How a node that stops gives its spaces back: up to 1,000 with one statement, and more in steps spread over a time.

1,000 spaces or fewer     all at once
2,500, drain_ms = 9,000   1,000 at 0 s, 1,000 at 3 s, 500 at 6 s

Its sessions come back within a random time, so that the nodes that are left are not asked by all of them at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stemmadb.protocol.model.values.ids import Did

SPACES_AT_ONCE: Final = 1_000


class DrainStep(NamedTuple):
    at: float
    """Seconds after the first one."""
    spaces: Sequence[Did]


def steps(spaces: Sequence[Did], drain_ms: int) -> Iterator[DrainStep]:
    firsts = range(0, len(spaces), SPACES_AT_ONCE)
    for number, first in enumerate(firsts):
        yield DrainStep(number * drain_ms / 1_000 / len(firsts), spaces[first : first + SPACES_AT_ONCE])


def retry_after_ms(sessions: int, drain_ms: int) -> int:
    """A millisecond for each session of the node, and no more than the drain takes: any time up to that."""
    return random.randint(0, min(drain_ms, sessions))  # noqa: S311  # no secret
