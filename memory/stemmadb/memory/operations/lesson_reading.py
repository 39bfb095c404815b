"""Reading lessons: direct hits by words, neighbours by links and by vectors, all at one version and one time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import apsw
import msgspec

from stemmadb.memory.index import words
from stemmadb.memory.index.documents import searched_text
from stemmadb.memory.index.neighbours import links_at
from stemmadb.memory.index.search import Question, row_counts, stems_of
from stemmadb.memory.operations.memories import read_memories
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.operations.searching import FoundMemory, SearchAnswer, SearchQuery, search
from stemmadb.memory.rules import ids, records, roles
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.lessons import reading
from stemmadb.memory.rules.lessons.reading import LessonEdge, RankedLesson, Reached, ReachedLesson
from stemmadb.memory.rules.lessons.records import visible_namespaces
from stemmadb.memory.rules.lessons.requests import LESSON_KINDS, ReadLessons
from stemmadb.memory.rules.records import Memory, Vector
from stemmadb.memory.rules.roles import MemoryCaller

CANDIDATES_MIN: Final = 100
CANDIDATES_MAX: Final = 1_000
"""How many matches by words are looked at for those that have enough of the query's words."""


class ReadLesson(NamedTuple):
    """A memory of the answer, and the links from and to it."""

    ranked: RankedLesson
    memory: Memory
    edges: Sequence[LessonEdge]


class LessonsRead(NamedTuple):
    """Everything as of `version` and `now`."""

    lessons: Sequence[ReadLesson]
    version: int
    now: Millis
    is_partial: bool
    """Whether more memories matched by words than were looked at."""
    is_degraded: bool
    """Whether the index could not be brought up to the head in time."""


async def read_lessons(memory: MemorySpace, caller: MemoryCaller, request: ReadLessons) -> LessonsRead:
    """The memories that answer, best first. Never writes."""
    names = visible_namespaces(request.repo_id, with_global=request.include_global)
    answer = await _direct_hits(memory, caller, request, names)
    spaces = [ids.namespace_hash(name) for name in names if roles.may_use(caller, name)]
    asked = Question(spaces, kinds=LESSON_KINDS, limit=request.limit, now=answer.now, version=answer.version)
    lessons = await _LessonReader(memory, asked, request).read(answer.found)
    return LessonsRead(lessons, answer.version, answer.now, answer.is_partial, answer.is_degraded)


# ---------------------------------------------------------------- by words


async def _direct_hits(
    memory: MemorySpace, caller: MemoryCaller, request: ReadLessons, names: Sequence[str]
) -> SearchAnswer:
    """Looks at more and more matches until twice as many as are wanted have enough of the words."""
    size = CANDIDATES_MIN
    while True:
        kinds = request.kinds or LESSON_KINDS
        answer = await search(memory, caller, SearchQuery(names, text=request.query, kinds=kinds, limit=size))
        covering = await memory.index.ask(lambda index: _covering(index, request, answer.found))  # noqa: B023
        is_all = len(answer.found) < size
        if is_all or len(covering) >= 2 * request.limit or size == CANDIDATES_MAX:
            cut = not is_all and size == CANDIDATES_MAX
            return answer._replace(found=covering, is_partial=answer.is_partial or cut)
        size = min(4 * size, CANDIDATES_MAX)


def _covering(index: apsw.Connection, request: ReadLessons, found: Sequence[FoundMemory]) -> list[FoundMemory]:
    """Those that have enough of the query's words, with their BM25; what only a substring found has no score."""
    query = [stems_of(index, word) for word in words.words_of(request.query)]
    if not query or not found:
        return list(found)
    texts = [stems_of(index, searched_text(one.memory)) for one in found]
    mean = sum(map(len, texts)) / len(texts)
    rows, having = row_counts(index, {stem for word in query for stem in word})
    weights = {stem: reading.rarity(rows, count) for stem, count in having.items()}
    least = reading.COVERAGE_MIN[request.mode]
    return [
        one._replace(score=reading.bm25(weights, text, mean))
        for one, text in zip(found, texts, strict=True)
        if reading.coverage(query, set(text)) >= least
    ]


# ---------------------------------------------------------------- neighbours, and the answer


class _LessonReader:
    """One read, at the version and time of its question. It knows every memory that it has met."""

    def __init__(self, memory: MemorySpace, question: Question, request: ReadLessons) -> None:
        self._memory = memory
        self._question = question
        self._request = request
        self._met: dict[MemoryId, Memory] = {}
        self._entities: dict[MemoryId, str] = {}

    async def read(self, found: Sequence[FoundMemory]) -> list[ReadLesson]:
        best = max((one.score for one in found if one.score is not None), default=None)
        direct = {
            one.id: ReachedLesson(1.0 if best is None or one.score is None else one.score / best, 0) for one in found
        }
        self._met = {one.id: one.memory for one in found}
        hits = self._ranked("direct", direct)
        anchors = {one.id: direct[one.id].relevance for one in reading.best(hits, self._request.limit)}
        linked = await self._linked(anchors)
        similar = await self._similar(anchors)
        explicit = {uuid: way for uuid, way in linked.items() if uuid not in direct}
        implicit = {uuid: way for uuid, way in similar.items() if uuid not in direct and uuid not in linked}
        await self._meet([*explicit, *implicit])
        groups = [hits, self._ranked("explicit", explicit), self._ranked("implicit", implicit)]
        chosen = reading.chosen(groups, self._request.mode, self._request.limit)
        edges = await self._edges([one.id for one in chosen])
        return [
            ReadLesson(one, self._met[one.id], [edge for edge in edges if one.id in (edge.newer, edge.older)])
            for one in chosen
        ]

    def _ranked(self, reached: Reached, ways: Mapping[MemoryId, ReachedLesson]) -> list[RankedLesson]:
        wanted = self._request.kinds or LESSON_KINDS
        ranked = []
        for uuid, way in ways.items():
            record = self._met.get(uuid)
            if record is not None and record.kind in wanted:
                score = reading.score(way.relevance, record.truth, record.utility)
                ranked.append(RankedLesson(uuid, reached, way.hop, score))
        return ranked

    async def _linked(self, anchors: Mapping[MemoryId, float]) -> dict[MemoryId, ReachedLesson]:
        options = self._request.expand
        rels, edges = reading.followed(options), set[LessonEdge]()
        seen, frontier = set(anchors), set(anchors)
        for _ in range(options.semantic_hops):
            new = [edge for edge in await self._edges(sorted(frontier)) if edge.rel in rels]
            edges.update(new)
            frontier = {end for edge in new for end in (edge.newer, edge.older)} - seen
            seen |= frontier
        return reading.linked(anchors, edges, rels, options.semantic_hops)

    async def _edges(self, uuids: Sequence[MemoryId]) -> list[LessonEdge]:
        if not uuids:
            return []
        found = await self._memory.index.ask(lambda index: links_at(index, self._question, uuids))
        return [LessonEdge(self._known(link.newer), link.rel, self._known(link.older)) for link in found]

    async def _similar(self, anchors: Mapping[MemoryId, float]) -> dict[MemoryId, ReachedLesson]:
        """By vectors that callers gave: the relevance is multiplied by the cosine at each hop."""
        found: dict[MemoryId, ReachedLesson] = {}
        frontier = dict(anchors)
        for hop in range(1, self._request.expand.semantic_hops + 1):
            after: dict[MemoryId, float] = {}
            for uuid, vector in (await self._vectors(sorted(frontier))).items():
                for other, cosine in await self._nearest(vector):
                    if cosine >= reading.SIMILAR_MIN and other not in anchors:
                        after[other] = max(after.get(other, 0.0), frontier[uuid] * cosine)
            for uuid, relevance in after.items():
                found[uuid] = reading.better(found.get(uuid), ReachedLesson(relevance / hop, hop))
            frontier = dict(sorted(after.items(), key=lambda item: (-item[1], item[0]))[: self._request.limit])
        return found

    async def _vectors(self, uuids: Sequence[MemoryId]) -> dict[MemoryId, bytes]:
        places = {ids.vector_entity(nsh, uuid): uuid for uuid in uuids for nsh in self._hashes()}
        if not places:
            return {}
        stored = await self._memory.space.at(version=self._question.version).query(list(places))
        return {
            uuid: records.floats_of(msgspec.convert(stored[entity], Vector))
            for entity, uuid in places.items()
            if entity in stored
        }

    async def _nearest(self, vector: bytes) -> list[tuple[MemoryId, float]]:
        hits = await self._memory.index.search(self._question._replace(embedding=vector))
        return [(self._known(hit.entity), hit.score) for hit in hits.hits if hit.score is not None]

    async def _meet(self, uuids: Sequence[MemoryId]) -> None:
        """Reads neighbours from the store; who is not there at this version is not met."""
        entities = [self._entities[uuid] for uuid in dict.fromkeys(uuids)]
        for start in range(0, len(entities), CANDIDATES_MAX):
            some = entities[start : start + CANDIDATES_MAX]
            for one in await read_memories(self._memory, some, version=self._question.version):
                self._met[one.id] = one.memory

    def _known(self, entity: str) -> MemoryId:
        parts = ids.parts_of(entity)
        assert parts is not None, "the index has links and vectors of memories only"
        self._entities[parts[1]] = entity
        return parts[1]

    def _hashes(self) -> list[ids.NamespaceHash]:
        return [ids.NamespaceHash(nsh) for nsh in self._question.namespaces]
