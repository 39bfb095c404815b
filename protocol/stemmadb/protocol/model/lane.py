"""The lane of plain commits: compiled where that was built, in Python where it was not. The answers are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stemmadb.protocol.model import plain
from stemmadb.protocol.model.admission import Accepted
from stemmadb.protocol.model.compiled import native
from stemmadb.protocol.model.ids import TimeMs
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.model.plain import Ground
from stemmadb.protocol.model.proposal import Proposal

_NATIVE: Final = native()


def decide(
    batch: Sequence[Proposal], ground: Ground, *, now: TimeMs, salts: Iterator[bytes], limits: Limits = DEFAULTS
) -> list[Accepted] | None:
    """As `plain.decide`."""
    if _NATIVE is None:
        return plain.decide(batch, ground, now=now, salts=salts, limits=limits)
    return _NATIVE.decide(batch, ground, now, salts, limits)
