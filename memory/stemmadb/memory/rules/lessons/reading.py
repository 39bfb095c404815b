"""Ranking of a read: what the words found, what is linked to it, what is similar; and who gets the places.

Relevance is a number from 0 to 1: a direct hit has its BM25 divided by the best one, a neighbour the relevance of the
hit it was reached from, divided by the hop. The score is relevance weighted by truth and utility.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.lessons.adjusting import PLACES, UNKNOWN
from stemmadb.memory.rules.lessons.requests import NeighbourOptions, ReadMode

Reached = Literal["direct", "explicit", "implicit"]
COVERAGE_MIN: Final[Mapping[ReadMode, float]] = {"targeted": 0.65, "ambient": 0.80}
"""The share of the query's words that a direct hit has."""
SHARES: Final[Mapping[ReadMode, tuple[int, int, int]]] = {"targeted": (4, 3, 1), "ambient": (4, 5, 3)}
"""Direct, explicit and implicit places of an answer."""
K1: Final = 1.2
B: Final = 0.75
SIMILAR_MIN: Final = 0.25
"""The cosine from which a memory is a neighbour by its vector."""


class LessonEdge(NamedTuple):
    """A link that `newer` stores."""

    newer: MemoryId
    rel: str
    older: MemoryId


class ReachedLesson(NamedTuple):
    """How a memory was reached, and how relevant that makes it."""

    relevance: float
    hop: int


class RankedLesson(NamedTuple):
    """A memory with its place in the answer."""

    id: MemoryId
    reached: Reached
    hop: int
    score: float


def coverage(query: Sequence[Collection[str]], text: Collection[str]) -> float:
    """The share of the query's words, each a group of stems, of which the text has every stem."""
    if not query:
        return 1.0
    return sum(all(stem in text for stem in word) for word in query) / len(query)


def rarity(rows: int, having: int) -> float:
    """The weight of a word that is in so many of all rows; above 0 also where nearly every row has it."""
    return math.log(1 + (max(rows - having, 0) + 0.5) / (having + 0.5))


def bm25(weights: Mapping[str, float], text: Sequence[str], mean_length: float) -> float:
    """How well a text, given as stems, matches the stems of a query with their weights."""
    long = 1 - B + B * len(text) / mean_length
    counts = Counter(stem for stem in text if stem in weights)
    return sum(weights[stem] * count * (K1 + 1) / (count + K1 * long) for stem, count in sorted(counts.items()))


def followed(options: NeighbourOptions) -> frozenset[str]:
    """The relations that lead to neighbours, in both directions."""
    rels = {"related"}
    rels |= {"problem"} if options.include_problem_links else set()
    rels |= {"changes"} if options.include_update_links else set()
    return frozenset(rels)


def linked(
    anchors: Mapping[MemoryId, float], edges: Iterable[LessonEdge], rels: Collection[str], hops: int
) -> dict[MemoryId, ReachedLesson]:
    """Neighbours by links: the relevance of the best anchor divided by the hops to it. Anchors are left out."""
    beside: dict[MemoryId, set[MemoryId]] = {}
    for newer, rel, older in edges:
        if rel in rels:
            beside.setdefault(newer, set()).add(older)
            beside.setdefault(older, set()).add(newer)
    found: dict[MemoryId, ReachedLesson] = {}
    for anchor, relevance in anchors.items():
        seen, frontier = {anchor}, {anchor}
        for hop in range(1, hops + 1):
            frontier = {other for one in frontier for other in beside.get(one, ())} - seen
            seen |= frontier
            for one in frontier - anchors.keys():
                found[one] = better(found.get(one), ReachedLesson(relevance / hop, hop))
    return found


def better(one: ReachedLesson | None, other: ReachedLesson) -> ReachedLesson:
    """The more relevant of two ways to a memory, and of equal ones the shorter."""
    return other if one is None else max(one, other, key=lambda way: (way.relevance, -way.hop))


def score(relevance: float, truth: float | None, utility: float | None) -> float:
    """What is true and useful comes first; what is neither loses five eighths."""
    true, useful = (UNKNOWN if value is None else value for value in (truth, utility))
    return round(relevance * (0.5 + 0.5 * true) * (0.75 + 0.5 * useful), PLACES)


def places(mode: ReadMode, limit: int) -> tuple[int, int, int]:
    """The places of the three groups. Fractions go to the earlier group, so that one place is a direct hit's.

    >>> places("targeted", 20), places("ambient", 1)
    ((10, 8, 2), (1, 0, 0))
    """
    shares = SHARES[mode]
    whole = sum(shares)
    direct = -(-limit * shares[0] // whole)
    both = -(-limit * (shares[0] + shares[1]) // whole)
    return direct, both - direct, limit - both


def best(group: Sequence[RankedLesson], limit: int) -> list[RankedLesson]:
    """The first ones by score, ties by id."""
    return sorted(group, key=_order)[:limit]


def chosen(groups: Sequence[Sequence[RankedLesson]], mode: ReadMode, limit: int) -> list[RankedLesson]:
    """The answer, best first, ties by id. Places that a group leaves pass to the next one, and last to the first."""
    ordered = [best(group, len(group)) for group in groups]
    taken: list[RankedLesson] = []
    left: list[RankedLesson] = []
    spare = 0
    for group, share in zip(ordered, places(mode, limit), strict=True):
        room = share + spare
        taken += group[:room]
        left += group[room:]
        spare = room - min(room, len(group))
    return sorted(taken + left[:spare], key=_order)


def _order(one: RankedLesson) -> tuple[float, str]:
    return -one.score, one.id
