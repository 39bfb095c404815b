"""The fast path of commits: compiled where it was built, else in Python. Both give the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.commit import fast_path_python
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.fast_path_python import BatchBase
from stemmadb.protocol.model.commit.native import native
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

_NATIVE: Final = native()


def decide(
    batch: Sequence[Proposal], base: BatchBase, *, now: TimeMs, salts: Iterator[bytes], limits: Limits = DEFAULTS
) -> list[Accepted] | None:
    """As `fast_path_python.decide`."""
    if _NATIVE is None:
        return fast_path_python.decide(batch, base, now=now, salts=salts, limits=limits)
    return _NATIVE.decide(batch, base, now, salts, limits)
