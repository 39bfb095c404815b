"""The nested result a person expects: the roots' values, with what they link to in the place of the links (QUERY-7).

A link out of a cycle, or in no cycle at all, is always replaced, and what it leads to is built once and shared. A
link inside a cycle is replaced if it leads one link farther from where the cycle was entered; any other stays as it
is. So a root looks the same whatever other roots there are, everything reached is shown at least once as near to
the root as it can be, and the size never explodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.query.query import H, Hop, TraversalResult, Visit, VisitResult
from stemmadb.protocol.model.query.traversal import MISSING, resolve
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits

LINKS_MAX: Final = 1_000_000
"""Many roots in one large cycle show the cycle once for each of them; this bounds the work, counted in links."""


class _Part(NamedTuple):
    """A visit as seen from where its cycle was entered; outside of cycles a visit is its own entry."""

    visit: Visit
    entry: Visit


class _Built(NamedTuple):
    value: Value
    depth: int


def assemble(answer: TraversalResult[H], *, limits: Limits = DEFAULTS) -> list[Value]:
    """The value of each of `answer.roots`, links replaced; unresolved and unmatched links stay as they are.

    Nothing in the answer is changed, and the result shares with it what has no links. `LimitExceeded` if links
    nest deeper than `query_depth_max`, which only roots that link to one another in a long chain can do.
    """
    work = _Assembly(answer, limits)
    return [work.build(root) for root in answer.roots]


class _Assembly:
    """Builds parts from the leaves up, each once."""

    def __init__(self, answer: TraversalResult[H], limits: Limits) -> None:
        self.values = {id_: entity.value for id_, entity in answer.entities.items()}
        self.depth_max = limits.query_depth_max
        matched = {v: outcome for v, outcome in answer.visits.items() if outcome.found is VisitResult.MATCHED}
        self.links = {v: tuple(h for h in outcome.hops if h.target in matched) for v, outcome in matched.items()}
        self.cycle = _cycles(self.links)
        self.built: dict[_Part, _Built] = {}
        self.distance: dict[_Part, int] = {}
        self.children: dict[_Part, list[tuple[Hop, _Part]]] = {}
        self.links_seen = 0

    def build(self, root: Visit) -> Value:
        """Depth first with a stack of its own: a part is finished once all parts it needs are."""
        first = self._enter(root)
        waiting = [first]
        while waiting:
            part = waiting[-1]
            if part in self.built:
                waiting.pop()
            elif part not in self.children:
                self.children[part] = self._children(part)
                waiting.extend(child for _, child in self.children[part] if child not in self.built)
            else:
                self.built[part] = self._finish(part, self.children.pop(part))
        return self.built[first].value

    def _children(self, part: _Part) -> list[tuple[Hop, _Part]]:
        """The links of the part that are replaced, and by what."""
        hops = self.links[part.visit]
        self._account(len(hops))
        children = []
        for hop in hops:
            if self.cycle[hop.target] != self.cycle[part.visit]:
                children.append((hop, self._enter(hop.target)))
            elif self.distance[child := _Part(hop.target, part.entry)] == self.distance[part] + 1:
                children.append((hop, child))
        return children

    def _enter(self, entry: Visit) -> _Part:
        """Measures how far the visits of the entry's cycle are from it, on the first time."""
        first = _Part(entry, entry)
        if first not in self.distance:
            self.distance[first] = 0
            order = [first]
            for part in order:  # grows while it is walked
                order.extend(self._farther(part))
        return first

    def _farther(self, part: _Part) -> Iterable[_Part]:
        hops = self.links[part.visit]
        self._account(len(hops))
        for hop in hops:
            child = _Part(hop.target, part.entry)
            if self.cycle[hop.target] == self.cycle[part.visit] and child not in self.distance:
                self.distance[child] = self.distance[part] + 1
                yield child

    def _finish(self, part: _Part, children: list[tuple[Hop, _Part]]) -> _Built:
        value = resolve(self.values[part.visit.id], part.visit.path)
        assert value is not MISSING, "a visit that matched has a value"
        replacements = [(hop.place, self.built[child]) for hop, child in children]
        depth = max((child.depth + 1 for _, child in replacements), default=0)
        if depth > self.depth_max:
            raise LimitExceeded(bound="query_depth_max", maximum=self.depth_max, actual=depth)
        return _Built(_replaced(value, [(place, child.value) for place, child in replacements]), depth)

    def _account(self, links: int) -> None:
        self.links_seen += links
        if self.links_seen > LINKS_MAX:
            raise LimitExceeded(bound="assembled_links_max", maximum=LINKS_MAX, actual=self.links_seen)


def _cycles(links: dict[Visit, tuple[Hop, ...]]) -> dict[Visit, int]:
    """A number for each visit, the same for two exactly if each leads to the other (Tarjan's algorithm, unrolled)."""
    numbers: dict[Visit, int] = {}
    lowest: dict[Visit, int] = {}
    cycle: dict[Visit, int] = {}
    open_visits: list[Visit] = []
    for origin, its_links in links.items():
        walk = [] if origin in numbers else [(origin, iter(its_links))]
        while walk:
            visit, hops = walk[-1]
            if visit not in numbers:
                numbers[visit] = lowest[visit] = len(numbers)
                open_visits.append(visit)
            for hop in hops:
                if hop.target not in numbers:
                    walk.append((hop.target, iter(links[hop.target])))
                    break
                if hop.target not in cycle:
                    lowest[visit] = min(lowest[visit], lowest[hop.target])
            else:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[visit])
                if lowest[visit] == numbers[visit]:
                    _close(visit, open_visits, cycle)
    return cycle


def _close(first: Visit, open_visits: list[Visit], cycle: dict[Visit, int]) -> None:
    """Everything opened since the first visit of a cycle belongs to it."""
    number = len(cycle)
    while True:
        visit = open_visits.pop()
        cycle[visit] = number
        if visit == first:
            return


def _replaced(value: Value, replacements: list[tuple[tuple[str, ...], Value]]) -> Value:
    """A copy with other values at these places; only the containers on the way to them are copied, each once."""
    copies: dict[tuple[str, ...], Value] = {}
    whole = value
    for place, replacement in replacements:
        if not place:
            return replacement  # the value is the link
        whole = _copied(whole, (), copies)
        container = whole
        for length in range(1, len(place)):
            child = _copied(_part(container, place[length - 1]), place[:length], copies)
            _put(container, place[length - 1], child)
            container = child
        _put(container, place[-1], replacement)
    return whole


def _copied(container: Value, place: tuple[str, ...], copies: dict[tuple[str, ...], Value]) -> Value:
    if place not in copies:
        assert isinstance(container, dict | list)
        copies[place] = container.copy()
    return copies[place]


def _part(container: Value, token: str) -> Value:
    if isinstance(container, list):
        return container[int(token)]
    assert isinstance(container, dict)
    return container[token]


def _put(container: Value, token: str, child: Value) -> None:
    if isinstance(container, list):
        container[int(token)] = child
    else:
        assert isinstance(container, dict)
        container[token] = child
