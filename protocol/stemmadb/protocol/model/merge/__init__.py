"""Three-way merge, entity by entity: what to write on the target, and every conflict as data (MERGE-1..4).

`plan` merges two sides and returns the writes and the conflicts, `sides` is what it needs to know of an entity,
`decide` and `fields` apply the strategies, `counters` adds up increments, and `undo` is the inverse of commits.

Imports `history`, `commit`, `log`, `patch` and `values`.
"""

from __future__ import annotations

from stemmadb.protocol.model.merge.check import check_merge, check_strategy
from stemmadb.protocol.model.merge.plan import EntityWrite, MergePlan, plan
from stemmadb.protocol.model.merge.sides import Candidate, MergeSide

__all__ = ["Candidate", "EntityWrite", "MergePlan", "MergeSide", "check_merge", "check_strategy", "plan"]
