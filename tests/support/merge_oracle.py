"""Merge by definition: a page of obvious code to compare with.

`Oracle` keeps the whole graph of commits, and in every commit the whole state, with the origin written beside each
leaf. Documents have a fixed shape (see `LEAVES`), so that a document is a table and a merge is a loop over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.difference import Content
from stemmadb.protocol.model.state import Missing

ABSENT = Missing.ABSENT

LEAVES = ("/a", "/b", "/n", "/l", "/k", "/o/x", "/o/y", "/o/k")
"""`k` is always there and never changed, so that no object is ever empty; `n` is a number, `l` an array."""
GONE = "(gone)"


class Tag(NamedTuple):
    value: Any
    origin: int
    assigned: int


@dataclass
class Doc:
    """An entity: its leaves with their origins, or absent since `deleted`."""

    leaves: dict[str, Tag] | None = None
    deleted: int = 0

    def value(self) -> Content:
        if self.leaves is None:
            return ABSENT
        plain: dict[str, Any] = {"o": {}}
        for path, tag in self.leaves.items():
            if tag.value is not GONE:
                (plain["o"] if path.startswith("/o/") else plain)[path[-1]] = tag.value
        return plain

    def at(self, path: str) -> Tag:
        return self.leaves[path] if self.leaves is not None else Tag(GONE, self.deleted, self.deleted)

    def equals(self, other: Doc) -> bool:
        return self.value() == other.value()


def doc_of(values: Mapping[str, Any], version: int) -> Doc:
    return Doc({path: Tag(values.get(path, GONE), version, version) for path in LEAVES})


@dataclass
class Node:
    branch: str
    version: int
    parents: list[Node]
    state: dict[str, Doc]

    def ancestors(self) -> list[Node]:
        """This commit and all before it, over all parents."""
        found: dict[int, Node] = {}
        todo = [self]
        while todo:
            node = todo.pop()
            if id(node) not in found:
                found[id(node)] = node
                todo.extend(node.parents)
        return list(found.values())


def best_common(one: Node, other: Node) -> list[Node]:
    """The common ancestors that are not ancestors of another common one."""
    theirs = {id(node) for node in other.ancestors()}
    common = [node for node in one.ancestors() if id(node) in theirs]
    older = {id(above) for node in common for above in node.ancestors() if above is not node}
    return [node for node in common if id(node) not in older]


@dataclass
class Oracle:
    root: Node = field(default_factory=lambda: Node("main", 0, [], {}))
    nodes: list[Node] = field(default_factory=list)
    forks: dict[str, tuple[str, int]] = field(default_factory=dict)

    def at(self, name: str, version: int) -> Node:
        own = [node for node in self.nodes if node.branch == name and node.version <= version]
        if own:
            return own[-1]
        if name not in self.forks:
            return self.root
        parent, fork = self.forks[name]
        return self.at(parent, min(fork, version))

    def commit(self, name: str, version: int, docs: Mapping[str, Doc], *parents: Node) -> None:
        before = self.at(name, version)
        self.nodes.append(Node(name, version, [before, *parents], before.state | dict(docs)))

    def merge(
        self, source: Node, name: str, version: int, strategy: str, resolutions: Mapping[str, Any]
    ) -> set[tuple[str, str, str]]:
        """Merges and gives the conflicts as (id, path, winner)."""
        target = self.at(name, version)
        bases = best_common(source, target)
        conflicts: set[tuple[str, str, str]] = set()
        docs: dict[str, Doc] = {}
        for id_ in {*source.state, *target.state, *(id_ for base in bases for id_ in base.state)}:
            sides = [node.state.get(id_, Doc()) for node in (*bases, source, target)]
            docs[id_], contested = merge_docs(sides[:-2], sides[-2], sides[-1], strategy)
            if contested and id_ in resolutions:
                values, contested = resolutions[id_], [("", "resolution")]
                docs[id_] = doc_of(values, version) if values is not None else adopted(sides[-1], Doc(None, version))
            conflicts |= {(id_, path, winner) for path, winner in contested}
        if not any(node is source for node in target.ancestors()):
            self.commit(name, version, docs, source)
        return conflicts


def adopted(target: Doc, new: Doc) -> Doc:
    """The target after it took what another side has: what was equal before was not written."""
    if new.leaves is None:
        return target if target.leaves is None else new
    if target.leaves is None:
        return new
    return Doc({path: target.at(path) if _equal(target, new, path) else new.at(path) for path in LEAVES})


def merge_docs(bases: list[Doc], source: Doc, target: Doc, strategy: str) -> tuple[Doc, list[tuple[str, str]]]:
    """MERGE-2 and MERGE-3, by the letter."""
    base = bases[0] if all(other.equals(bases[0]) for other in bases) else None
    if base is not None and source.equals(base):
        return target, []
    if base is not None and target.equals(base):
        return adopted(target, source), []
    counted = [path for path in LEAVES if base is not None and _both_counted(bases, source, target, path)]
    if source.equals(target) and not counted:
        return target, []
    if strategy == "fields" and source.leaves is not None and target.leaves is not None:
        return _merge_leaves(base, source, target, counted)
    wins = strategy == "source" or (strategy in ("lww", "fields") and _is_later(base, source, target))
    return adopted(target, source) if wins else target, [("", "source" if wins else "target")]


def _merge_leaves(
    base: Doc | None, source: Doc, target: Doc, counted: list[str]
) -> tuple[Doc, list[tuple[str, str]]]:
    merged: dict[str, Tag] = {}
    contested: list[tuple[str, str]] = []
    for path in LEAVES:
        mine, theirs = target.at(path), source.at(path)
        merged[path] = mine
        if path in counted:
            assert base is not None
            total = mine.value + theirs.value - base.at(path).value
            merged[path] = Tag(total, max(mine.origin, theirs.origin), mine.assigned)
            contested.append((path, "both"))
        elif _equal(source, target, path) or (base is not None and _equal(source, base, path)):
            pass
        elif base is not None and _equal(target, base, path):
            merged[path] = theirs
        else:
            wins = (theirs.origin, _bytes(theirs.value)) > (mine.origin, _bytes(mine.value))
            merged[path] = theirs if wins else mine
            contested.append((path, "source" if wins else "target"))
    return Doc(merged), contested or [("", "both")]


def _both_counted(bases: list[Doc], source: Doc, target: Doc, path: str) -> bool:
    docs = [*bases, source, target]
    if path != "/n" or any(not isinstance(doc.at(path).value, int) for doc in docs):
        return False
    numbers = {base.at(path) for base in bases}
    before = bases[0].at(path)
    is_changed = source.at(path).value != before.value and target.at(path).value != before.value
    return len(numbers) == 1 and is_changed and len({doc.at(path).assigned for doc in docs}) == 1


def _is_later(base: Doc | None, source: Doc, target: Doc) -> bool:
    mine, theirs = _changed(base or source, target), _changed(base or target, source)
    return (theirs, _bytes(source.value())) > (mine, _bytes(target.value()))


def _changed(old: Doc, new: Doc) -> list[int]:
    """The origins of what one side changed, latest first."""
    if new.leaves is None:
        return [new.deleted]
    if old.leaves is None:
        return [max(tag.origin for tag in new.leaves.values())]
    return sorted((new.at(path).origin for path in LEAVES if not _equal(old, new, path)), reverse=True)


def _equal(one: Doc, other: Doc, path: str) -> bool:
    return bool(one.at(path).value == other.at(path).value)


def _bytes(value: Any) -> bytes:
    return b"" if value is GONE or value is ABSENT else encode(value)
