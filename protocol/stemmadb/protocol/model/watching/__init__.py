"""The watch evaluator: a pure object that keeps a query's answer true from version to version (WATCH-1, WATCH-2)."""

from __future__ import annotations

from .evaluator import Watch
from .step import Step

__all__ = ["Step", "Watch"]
