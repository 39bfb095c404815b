"""Merge by definition: a page of obvious code to compare with.

`Oracle` keeps the whole graph of commits, and in every commit the whole state, with the origin written beside each
leaf. Documents have a fixed shape (see `LEAVES`), so that a document is a table and a merge is a loop over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode

ABSENT = Missing.ABSENT

LEAVES = ("/a", "/b", "/n", "/l", "/k", "/o/x", "/o/y", "/o/k")
"""`k` is always there and never changed, so that no object is ever empty; `n` is a number, `l` an array."""
GONE = "(gone)"


class Tag(NamedTuple):
    value: Any
    origin: int
    assigned: int
    root: int = 0
    start: Any = None
    counted: frozenset[tuple[int, int]] = frozenset()

    @property
    def base(self) -> tuple[int, Any]:
        """What it counts from: the version and the value."""
        return (self.root, self.start) if self.counted else (self.assigned, self.value)


@dataclass
class Doc:
    """An entity: its leaves with their origins, or absent since `deleted`."""

    leaves: dict[str, Tag] | None = None
    deleted: int = 0
    fact: int = 0

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

    def line(self) -> list[Node]:
        """This commit and those before it on its branch, and on those it was forked from."""
        return [self, *(self.parents[0].line() if self.parents else [])]


def before_split(one: Node, other: Node) -> set[int]:
    """The versions of all that two commits have in common by their forks, whatever was merged since."""
    theirs = {id(node) for node in other.line()}
    split = next(node for node in one.line() if id(node) in theirs)
    return {node.version for node in split.ancestors()}


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
        written = {id_: replace(doc, fact=version) for id_, doc in docs.items()}
        self.nodes.append(Node(name, version, [before, *parents], before.state | written))

    def merge(
        self, source: Node, name: str, version: int, strategy: str, resolutions: Mapping[str, Any]
    ) -> set[tuple[str, str, str]]:
        """Merges and gives the conflicts as (id, path, winner)."""
        target = self.at(name, version)
        bases = best_common(source, target)
        known = {node.version for base in bases for node in base.ancestors()}
        common = before_split(source, target)
        values: Any = None
        conflicts: set[tuple[str, str, str]] = set()
        docs: dict[str, Doc] = {}
        for id_ in {*source.state, *target.state, *(id_ for base in bases for id_ in base.state)}:
            sides = [node.state.get(id_, Doc()) for node in (*bases, source, target)]
            docs[id_], contested = merge_docs(sides[:-2], sides[-2], sides[-1], strategy, known, common)
            if contested and id_ in resolutions:
                values, contested = resolutions[id_], [("", "resolution")]
                docs[id_] = doc_of(values, version) if values is not None else Doc(None, version)
            else:
                docs[id_] = with_counts(docs[id_], sides[-1], sides[-2], version, common)
            is_fact = not docs[id_].equals(sides[-1]) or (contested == [("", "resolution")] and values is not None)
            docs[id_] = replace(docs[id_], fact=version if is_fact else sides[-1].fact)
            conflicts |= {(id_, path, winner) for path, winner in contested}
        if not any(node is source for node in target.ancestors()):
            self.nodes.append(Node(name, version, [target, source], target.state | docs))
        return conflicts


def adopted(target: Doc, new: Doc) -> Doc:
    """The target after it took what another side has: what was equal before was not written."""
    if new.leaves is None:
        return target if target.leaves is None else new
    if target.leaves is None:
        return new
    return Doc({path: target.at(path) if _equal(target, new, path) else new.at(path) for path in LEAVES})


def with_counts(new: Doc, target: Doc, source: Doc, version: int, common: set[int]) -> Doc:
    """A merged number holds the increments of both sides, if they are what it is made of."""
    if new.leaves is None:
        return new
    tag, mine, theirs = new.at("/n"), target.at("/n"), source.at("/n")
    if not (_is_number(tag) and _is_number(mine) and _is_number(theirs)) or not (mine.counted or theirs.counted):
        return new
    both = mine.counted | theirs.counted
    (one, begin), (other, begin_of_other) = mine.base, theirs.base
    is_one = one == other or (begin == begin_of_other and not {one, other} & common)
    if is_one and begin + sum(by for _, by in both) == tag.value:
        root = theirs.base[0] if tag.base[0] == theirs.base[0] else mine.base[0]
        tag = tag._replace(counted=both, root=root, start=mine.base[1])
    elif tag.value not in (mine.value, theirs.value):
        tag = tag._replace(counted=frozenset({(version, 0)}), root=version, start=tag.value)
    return replace(new, leaves=new.leaves | {"/n": tag})


class Three(NamedTuple):
    """An entity at all bases and both sides, with every version that a base knows."""

    bases: list[Doc]
    source: Doc
    target: Doc
    known: set[int]
    common: set[int]

    def apart(self, one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]) -> set[int]:
        """The increments that one has and the other has not, made since the branches split."""
        return {version for version, _ in one - other} - self.common

    @property
    def base(self) -> Doc | None:
        return self.bases[0] if all(other.equals(self.bases[0]) for other in self.bases) else None

    def changed(self, side: Doc, paths: tuple[str, ...] = LEAVES) -> bool:
        """Another value; with bases of different facts, new increments too."""
        if self.base is None or not all(_equal(side, self.base, path) for path in paths):
            return True
        if paths == LEAVES and not side.equals(self.base):
            return True
        if len({base.fact for base in self.bases}) == 1:
            return False
        return any(self.apart(side.at(path).counted, self.counted(path)) for path in paths)

    def same_counts(self, path: str) -> bool:
        mine, theirs = self.target.at(path).counted, self.source.at(path).counted
        return not self.apart(mine, theirs) and not self.apart(theirs, mine)

    def counted(self, path: str) -> frozenset[tuple[int, int]]:
        return frozenset().union(*(base.at(path).counted for base in self.bases))

    def hidden(self) -> bool:
        return any(
            self.changed(self.source, (path,)) and self.changed(self.target, (path,)) and not self.same_counts(path)
            for path in LEAVES
        )

    def sum(self, path: str) -> Tag | None:
        theirs, mine = self.source.at(path), self.target.at(path)
        if path != "/n" or not (_is_number(theirs) and _is_number(mine)):
            return None
        shared = theirs.counted & mine.counted
        if not self._one_root(theirs, mine):
            was = self.bases[0].at(path)
            is_one = len({base.fact for base in self.bases}) == 1 and shared <= self.counted(path)
            if not (is_one and _is_number(was) and theirs.assigned == mine.assigned == was.assigned):
                return None
            return Tag(mine.value + theirs.value - was.value, max(mine.origin, theirs.origin), mine.assigned)
        kept = shared | ((theirs.counted | mine.counted) - self.counted(path))
        for tag in (mine, theirs):
            if kept == tag.counted:
                return tag
        value = mine.base[1] + sum(by for _, by in kept)
        return Tag(value, max(mine.origin, theirs.origin), mine.assigned)

    def _one_root(self, theirs: Tag, mine: Tag) -> bool:
        if theirs.base[0] == mine.base[0]:
            return True
        roots = [tag.base[0] for tag in (theirs, mine)]
        if theirs.base[1] != mine.base[1] or self.common.intersection(roots):
            return False
        return roots == [theirs.assigned, mine.assigned] and len({root in self.known for root in roots}) == 1


def merge_docs(
    bases: list[Doc], source: Doc, target: Doc, strategy: str, known: set[int], common: set[int]
) -> tuple[Doc, list[tuple[str, str]]]:
    """MERGE-2 and MERGE-3, by the letter."""
    three = Three(bases, source, target, known, common)
    base = three.base
    if not three.changed(source):
        return target, []
    if not three.changed(target):
        return adopted(target, source), []
    if source.equals(target) and not three.hidden():
        return target, []
    if strategy == "fields" and source.leaves is not None and target.leaves is not None:
        return _merge_leaves(three)
    wins = strategy == "source" or (strategy in ("lww", "fields") and _is_later(base, source, target, common))
    return adopted(target, source) if wins else target, [("", "source" if wins else "target")]


def _merge_leaves(three: Three) -> tuple[Doc, list[tuple[str, str]]]:
    merged: dict[str, Tag] = {}
    contested: list[tuple[str, str]] = []
    is_crossed = len({base.fact for base in three.bases}) > 1
    for path in LEAVES:
        mine, theirs = three.target.at(path), three.source.at(path)
        merged[path] = mine
        source_changed, target_changed = three.changed(three.source, (path,)), three.changed(three.target, (path,))
        added = three.sum(path) if is_crossed or (source_changed and target_changed) else None
        if added is not None:
            merged[path] = added
            if added not in (mine, theirs):
                contested.append((path, "both"))
        elif not source_changed:
            pass
        elif not target_changed:
            merged[path] = theirs
        elif not _equal(three.source, three.target, path) or not three.same_counts(path):
            was = theirs.value if three.base is None else three.base.at(path).value
            is_as_it_was = theirs.value == mine.value == was  # there is nothing to take, but other increments
            origins = [0 if tag.origin in three.common else tag.origin for tag in (theirs, mine)]
            later = (origins[0], _bytes(theirs.value)) > (origins[1], _bytes(mine.value))
            wins = later and not is_as_it_was
            merged[path] = theirs if wins else mine
            contested.append((path, "source" if wins else "target"))
    return adopted(three.target, Doc(merged)), contested or [("", "both")]


def _is_number(tag: Tag) -> bool:
    return isinstance(tag.value, int)


def _is_later(base: Doc | None, source: Doc, target: Doc, common: set[int]) -> bool:
    mine, theirs = _changed(base or source, target, common), _changed(base or target, source, common)
    return (theirs, _bytes(source.value())) > (mine, _bytes(target.value()))


def _changed(old: Doc, new: Doc, common: set[int]) -> list[int]:
    """The origins of what one side changed, latest first; what is common is as old as can be."""
    if new.leaves is None:
        origins = [new.deleted]
    elif old.leaves is None:
        origins = [max(tag.origin for tag in new.leaves.values())]
    else:
        origins = [new.at(path).origin for path in LEAVES if not _equal(old, new, path)]
    return sorted((0 if origin in common else origin for origin in origins), reverse=True)


def _equal(one: Doc, other: Doc, path: str) -> bool:
    return bool(one.at(path).value == other.at(path).value)


def _bytes(value: Any) -> bytes:
    return b"" if value is GONE or value is ABSENT else encode(value)
