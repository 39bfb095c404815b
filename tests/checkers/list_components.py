"""Strongly connected components: the sets of nodes that all lead to one another (Tarjan, without recursion)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Next = Callable[[int], Iterable[int]]


def components(nodes: Iterable[int], follow: Next) -> Iterator[list[int]]:
    """Each component of more than one node; each edge is followed once."""
    walk = _Walk(follow)
    for node in nodes:
        if node not in walk.index:
            yield from walk.run(node)


class _Walk:
    """One walk over a graph; what it has seen stays seen."""

    def __init__(self, follow: Next) -> None:
        self._follow = follow
        self.index: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._stack: list[int] = []
        self._is_open: set[int] = set()
        self._path: list[tuple[int, Iterator[int]]] = []

    def run(self, root: int) -> Iterator[list[int]]:
        self._enter(root)
        while self._path:
            node, children = self._path[-1]
            child = self._unseen(node, children)
            if child is not None:
                self._enter(child)
                continue
            found = self._leave(node)
            if len(found) > 1:
                yield found

    def _enter(self, node: int) -> None:
        self.index[node] = self._low[node] = len(self.index)
        self._stack.append(node)
        self._is_open.add(node)
        self._path.append((node, iter(self._follow(node))))

    def _unseen(self, node: int, children: Iterator[int]) -> int | None:
        for child in children:
            if child not in self.index:
                return child
            if child in self._is_open:
                self._low[node] = min(self._low[node], self.index[child])
        return None

    def _leave(self, node: int) -> list[int]:
        """Goes back from a node; the component that ends with it, if one does."""
        self._path.pop()
        if self._path:
            above = self._path[-1][0]
            self._low[above] = min(self._low[above], self._low[node])
        if self._low[node] != self.index[node]:
            return []
        found = [self._stack.pop()]
        while found[-1] != node:
            found.append(self._stack.pop())
        self._is_open.difference_update(found)
        return found
