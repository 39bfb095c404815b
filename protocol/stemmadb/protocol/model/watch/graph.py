"""The graph of a watch's visits: edges along links, and which visits a root still reaches (WATCH-2).

Every visit that is not a root hangs on one *tree edge*, the link through which it was reached. Losing any other
edge changes nothing. Losing the tree edge is repaired near by: another edge from a visit closer to the roots takes
its place; only where there is none, the visits that hang below are detached and each looks for an edge from outside.
So the work follows what was cut off, never the size of the graph, and a ring of links that loses its only entry goes.

    root -> a -> b -> c        cutting root -> a detaches a, b and c; if another root links to b, then b and c
            ^---------'        hang on that, and so does a, through c; if none does, all three are dropped.

`depth` is never less than the distance from the nearest root, and greater than the tree parent's. That makes a
visit of smaller depth a safe new parent: it cannot hang below the visit that looks for one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from stemmadb.protocol.model.query.query import Outcome, Unresolved, Visit, VisitResult
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.watch.node import VisitNode, WatchedEntity
from stemmadb.protocol.model.watch.tally import Tally


class VisitGraph:
    """The visits, by entity; those that a root reaches are `attached` and counted in the tally."""

    def __init__(self) -> None:
        self.entities: dict[EntityId, WatchedEntity] = {}
        self.tally = Tally()
        self.deepest = 0
        self._frontier: list[VisitNode] = []
        self._loose: list[VisitNode] = []
        self._detached: dict[VisitNode, None] = {}

    def find(self, visit: Visit) -> VisitNode | None:
        entity = self.entities.get(visit.id)
        return None if entity is None else entity.nodes.get(visit)

    def anchor(self, visit: Visit, *, named: bool) -> VisitNode:
        """Makes the visit a root: one the query names, or one that a listing gave."""
        node = self._find_or_make(visit)
        if named:
            node.named = True
        else:
            node.listed = True
        if node.parent is not None:
            node.add_other(node.parent)
            node.parent = None
        node.depth = 0
        if not node.attached:
            self._count_in(node)
        return node

    def unlist(self, node: VisitNode) -> None:
        """The listing no longer gives it; it may still be a root by name, or be linked to."""
        node.listed = False
        self._loose.append(node)

    def assign(self, node: VisitNode, outcome: Outcome, *, size: int) -> None:
        """Records what the visit found and points it to where its links lead now."""
        self.tally.discount(node)
        self.tally.resize(node.entity, size)
        node.found = outcome.found
        node.unresolved = outcome.dangling
        if outcome.found is VisitResult.NOWHERE:
            node.unresolved = (Unresolved(node.visit.id, node.visit.path), *outcome.dangling)
        self.tally.count(node)
        self._point(node, dict.fromkeys(hop.target for hop in outcome.hops))

    def postpone(self, node: VisitNode) -> None:
        """Takes back what the visit found; it is to be made if it is still attached once all cuts are known."""
        self.tally.discount(node)
        node.found = None
        node.unresolved = ()
        self.tally.count(node)
        self._point(node, {})
        self._frontier.append(node)

    def take_unvisited(self) -> list[VisitNode]:
        """The attached visits not made yet, each once; those still not made must be put back (`defer`)."""
        taken = dict.fromkeys(node for node in self._frontier if node.attached and node.found is None)
        self._frontier = []
        return list(taken)

    def defer(self, nodes: Iterable[VisitNode]) -> None:
        self._frontier.extend(nodes)

    def _find_or_make(self, visit: Visit) -> VisitNode:
        entity = self.entities.get(visit.id)
        if entity is None:
            entity = self.entities[visit.id] = WatchedEntity(visit.id)
            self.tally.note_known(visit.id, known=False)
        node = entity.nodes.get(visit)
        if node is None:
            node = entity.nodes[visit] = VisitNode(visit, entity)
        return node

    # ------------------------------------------------------------ edges

    def _point(self, node: VisitNode, targets: dict[Visit, None]) -> None:
        before = node.out
        if len(before) == len(targets) and all(target.visit in targets for target in before):
            return
        node.out = tuple(self._find_or_make(visit) for visit in targets)
        known = set(before)
        for target in node.out:
            if target not in known:
                self._link(node, target)
        for target in before:
            if target.visit not in targets:
                self._unlink(node, target)

    def _link(self, source: VisitNode, target: VisitNode) -> None:
        if not target.attached:
            self._attach(target, source)
        elif not target.is_root() and source.depth + 1 < target.depth:
            if target.parent is not None:
                target.add_other(target.parent)
            target.parent = source
            target.depth = source.depth + 1
        else:
            target.add_other(source)

    def _unlink(self, source: VisitNode, target: VisitNode) -> None:
        if target.parent is source:
            target.parent = None
            self._loose.append(target)
        else:
            target.remove_other(source)

    # ------------------------------------------------------------ reachability

    def _attach(self, node: VisitNode, parent: VisitNode) -> None:
        """Hangs the visit on the parent, and below it whatever is detached and linked to from there."""
        waiting = deque(((node, parent),))
        while waiting:
            node, parent = waiting.popleft()
            if node.attached:
                continue  # reached by a shorter way meanwhile; this edge is among its others
            node.remove_other(parent)
            node.parent = parent
            node.depth = parent.depth + 1
            self.deepest = max(self.deepest, node.depth)
            self._count_in(node)
            waiting.extend((child, node) for child in node.out if not child.attached)

    def _count_in(self, node: VisitNode) -> None:
        node.attached = True
        self.tally.count(node)
        if node.found is None:
            self._frontier.append(node)

    def detach(self) -> None:
        """Detaches the visits that no root reaches through visits made so far; exploring may attach them again."""
        for node in self._loose:
            if node.attached and node.parent is None and not node.is_root() and not _prop(node):
                self._sever(node)
        self._loose.clear()
        for node in self._detached:
            if not node.attached and (parent := node.attached_source()) is not None:
                self._attach(node, parent)

    def _sever(self, node: VisitNode) -> None:
        """Detaches the visit and what hangs below it, but for what can be propped from elsewhere."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            node.attached = False
            self.tally.discount(node)
            self._detached[node] = None
            for child in node.out:
                if child.parent is node:
                    child.parent = None
                    child.add_other(node)
                    if not _prop(child):
                        waiting.append(child)

    def drop(self) -> None:
        """Forgets what is still detached: no root reaches it."""
        for node in self._detached:
            if not node.attached:
                for target in node.out:
                    target.remove_other(node)
                self._forget(node)
        self._detached.clear()

    def _forget(self, node: VisitNode) -> None:
        entity = node.entity
        del entity.nodes[node.visit]
        if not entity.nodes:
            del self.entities[entity.id]
            self.tally.note_known(entity.id, known=True)

    # ------------------------------------------------------------ distances

    def settle(self) -> None:
        """Makes every depth exact and every tree edge a shortest way, by one search through the whole graph."""
        order = [node for node in self.nodes() if node.is_root()]
        parents: dict[VisitNode, VisitNode | None] = dict.fromkeys(order)
        for node in order:  # grows while it is walked
            for child in node.out:
                if child not in parents:
                    parents[child] = node
                    child.depth = node.depth + 1
                    order.append(child)
        for node, parent in parents.items():
            _hang(node, parent)
        self.deepest = order[-1].depth if order else 0

    def nodes(self) -> Iterator[VisitNode]:
        for entity in self.entities.values():
            yield from entity.nodes.values()


def _prop(node: VisitNode) -> bool:
    """Hangs the visit on a link from an attached visit nearer to the roots, which cannot be below it."""
    for source in node.others or ():
        if source.attached and source.depth < node.depth:
            node.remove_other(source)
            node.parent = source
            return True
    return False


def _hang(node: VisitNode, parent: VisitNode | None) -> None:
    if node.parent is not parent:
        assert parent is not None, "a root has no tree edge and is given none"
        assert node.parent is not None, "what a root reaches hangs on something"
        node.add_other(node.parent)
        node.remove_other(parent)
        node.parent = parent
