"""Three-way merge, entity by entity: what to write on the target, and every conflict as data (MERGE-1..4)."""

from __future__ import annotations

from stemmadb.protocol.model.merge.check import check_merge, check_strategy
from stemmadb.protocol.model.merge.plan import Plan, Write, plan
from stemmadb.protocol.model.merge.sides import Candidate, Side

__all__ = ["Candidate", "Plan", "Side", "Write", "check_merge", "check_strategy", "plan"]
