"""The fast path of commits, in C where it was built: the way of nearly every write (COMMIT-2..6).

It makes facts and records as `admission.decide` makes them. What is not a fast-path commit (`batch_base`), or is not
accepted, is left to that, so that it may say why. Without the extension everything is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.batch_base import BatchBase
from stemmadb.protocol.model.commit.native import native
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.model.values.limits import Limits

_NATIVE: Final = native()
IS_THERE: Final = _NATIVE is not None


def decide(
    batch: Sequence[Proposal], base: BatchBase, now: TimeMs, salts: Iterator[bytes], limits: Limits
) -> list[Accepted] | None:
    """All of them accepted, in order; None if one is not a fast-path commit, and the base must then be dropped."""
    return None if _NATIVE is None else _NATIVE.decide(batch, base, now, salts, limits)
