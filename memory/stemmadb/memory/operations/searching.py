"""Searching: the index finds candidates, the store says what they are, both at one version and one time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stemmadb.memory.index.search import HEAD, Question
from stemmadb.memory.operations.memories import StoredMemory, read_memories
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.operations.moments import PastMoment
from stemmadb.memory.rules import ids, instants, roles
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.records import KINDS, Memory
from stemmadb.memory.rules.refusals import NotAllowed, UnknownMoment
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.protocol.errors import Compacted

FRESH_SECONDS: Final = 1.0
"""How long a search waits for the index to reach the head."""


class SearchQuery(NamedTuple):
    """What a caller looks for."""

    namespaces: Sequence[str]
    """Names. Those that are absent or expired are empty."""
    text: str | None = None
    embedding: bytes | None = None
    kinds: Sequence[str] = ()
    statuses: Sequence[str] = ()
    limit: int = 20
    at: PastMoment | None = None


class FoundMemory(NamedTuple):
    """A memory that answers; without a score where nothing ranks it."""

    id: MemoryId
    memory: Memory
    score: float | None


class SearchAnswer(NamedTuple):
    """Everything in it is as of `version` and `now`: the same two, and the same index, give the same answer."""

    found: Sequence[FoundMemory]
    version: int
    now: Millis
    is_partial: bool = False
    """Whether only some memories were ranked, for reasons of cost."""
    is_degraded: bool = False
    """Whether the index could not be brought up to the head in time."""


async def search(memory: MemorySpace, caller: MemoryCaller, query: SearchQuery) -> SearchAnswer:
    """The memories that answer, best first; `UnknownMoment` for a version that cannot be read any more."""
    is_fresh = await memory.index.reach(within=FRESH_SECONDS)
    now = memory.clock.now() if query.at is None else query.at.time
    names = [name for name in dict.fromkeys(query.namespaces) if roles.may_use(caller, name)]
    question = Question(
        namespaces=[ids.namespace_hash(name) for name in names],
        text=query.text,
        embedding=query.embedding,
        kinds=query.kinds or KINDS,  # memories only: proposals are searched beside decisions
        statuses=query.statuses,
        limit=query.limit,
        now=now,
        version=HEAD if query.at is None else query.at.version,
    )
    hits = await memory.index.search(question)
    scores = {hit.entity: hit.score for hit in hits.hits}
    try:
        stored = await read_memories(memory, list(scores), version=hits.version)
    except Compacted as gone:
        raise UnknownMoment(gone.message) from gone
    found = [FoundMemory(one.id, one.memory, scores[one.entity]) for one in stored if _answers(one, query, now)]
    return SearchAnswer(found, hits.version, now, hits.is_partial, not is_fresh)


def _answers(one: StoredMemory, query: SearchQuery, now: Millis) -> bool:
    """Checked again on what the store has: the index only proposes."""
    memory = one.memory
    is_wanted = not query.kinds or memory.kind in query.kinds
    has_status = not query.statuses or memory.status in query.statuses
    return is_wanted and has_status and not instants.is_past(memory.expires_at, now)


def check_namespaces(caller: MemoryCaller, names: Sequence[str]) -> None:
    """For interfaces that refuse a namespace that the caller may not use, instead of finding nothing there."""
    hidden = [name for name in names if not roles.may_use(caller, name)]
    if hidden:
        raise NotAllowed(f"This secret is limited to other namespaces than {', '.join(hidden)}.")
