"""Checks the chain of a log as the protocol tells it, by FACT-2 and FACT-3 alone, without the product's code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import plain_chain
from violations import Violation


def broken_chain(space: str, entries: list[dict[str, Any]], *, tip: bytes | None = None) -> Iterator[Violation]:
    """Every commit continues the one before and every fact the one before it, up to `tip` where that is known.

    `entries` are those of `log`, from the first on, oldest first, with all their facts.
    """
    try:
        reached = plain_chain.verify(space, entries)
    except plain_chain.Broken as broken:
        yield Violation("chain", str(broken))
        return
    if tip is not None and reached != tip:
        yield Violation("chain", f"it ends with {reached.hex()}, and somebody was told {tip.hex()}")
