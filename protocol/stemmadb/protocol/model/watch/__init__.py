"""The watch evaluator: keeps a query's answer up to date from version to version (WATCH-1, WATCH-2).

`evaluator` holds one watch, `graph` the visits and the links between them, `step` what one change added, changed or
removed, and `tally` counts the answer.

Pure. Imports `query` and `values`; its caller hands it the values it asks for.
"""

from __future__ import annotations

from stemmadb.protocol.model.watch.evaluator import NOTHING_ASKED, WatchEvaluator
from stemmadb.protocol.model.watch.step import WatchStep

__all__ = ["NOTHING_ASKED", "WatchEvaluator", "WatchStep"]
