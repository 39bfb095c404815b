"""One visit of a watch and the entity it looks at: what is kept of them between steps.

Values are not kept: a step is sent the values that changed and asks for those it comes upon anew. Kept are what was
found, where the links lead and who links here, which is what deciding reachability takes.
"""

from __future__ import annotations

from stemmadb.protocol.model.query.query import Unresolved, Visit, VisitResult
from stemmadb.protocol.model.values.ids import EntityId


class WatchedEntity:
    """An entity that visits look at, whether it is there or not."""

    __slots__ = ("id", "matched", "nodes", "size")

    def __init__(self, id_: EntityId) -> None:
        self.id = id_
        self.nodes: dict[Visit, VisitNode] = {}
        self.matched = 0
        """How many attached visits it matched; it is in the answer while there is one."""
        self.size = 0


class VisitNode:
    """A visit. Its in-edges are the tree edge from `parent` and those from `others`, which most do not have."""

    __slots__ = (
        "attached",
        "depth",
        "entity",
        "found",
        "listed",
        "named",
        "others",
        "out",
        "parent",
        "unresolved",
        "visit",
    )

    def __init__(self, visit: Visit, entity: WatchedEntity) -> None:
        self.visit = visit
        self.entity = entity
        self.found: VisitResult | None = None
        """None until the visit is made."""
        self.out: tuple[VisitNode, ...] = ()
        self.unresolved: tuple[Unresolved, ...] = ()
        """The links of the visit that lead nowhere, and the visit itself if its path does."""
        self.parent: VisitNode | None = None
        self.others: dict[VisitNode, None] | None = None
        self.depth = 0
        self.named = False
        self.listed = False
        self.attached = False

    def is_root(self) -> bool:
        """A root needs no link to it and so has no tree edge: all its in-edges are others."""
        return self.named or self.listed

    def add_other(self, source: VisitNode) -> None:
        if self.others is None:
            self.others = {}
        self.others[source] = None

    def remove_other(self, source: VisitNode) -> None:
        if self.others is not None:
            self.others.pop(source, None)
            if not self.others:
                self.others = None

    def attached_source(self) -> VisitNode | None:
        """A visit that a root reaches and that links here."""
        return next((source for source in self.others or () if source.attached), None)
