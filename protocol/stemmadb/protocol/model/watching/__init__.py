"""The watch evaluator: a pure object that keeps a query's answer true from version to version (WATCH-1, WATCH-2)."""

from __future__ import annotations

from stemmadb.protocol.model.watching.evaluator import Watch
from stemmadb.protocol.model.watching.step import Step

__all__ = ["Step", "Watch"]
