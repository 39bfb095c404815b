"""Searching decisions and proposals: the index finds, the store says what they are now, the rules rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stemmadb.memory.index.documents import PROPOSAL
from stemmadb.memory.index.search import Question
from stemmadb.memory.operations.memories import read_memories
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.operations.searching import FRESH_SECONDS
from stemmadb.memory.rules import ids, instants, roles, scoring
from stemmadb.memory.rules.decisions import target_of
from stemmadb.memory.rules.ids import MemoryId, NamespaceHash
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.proposals import DecisionProposal, proposal_of
from stemmadb.memory.rules.records import Memory
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.memory.rules.scoring import ScoredCandidate, SearchMode
from stemmadb.memory.rules.texts import checked

CANDIDATES_FACTOR: Final = 5
CANDIDATES_MAX: Final = 2_000
STRICT_STATUSES: Final = ("active", "superseded")
"""In strict a superseded decision only leads to the active one of its target."""
PREVIEW_CHARACTERS: Final = 200
DECISION: Final = "decision"


class FoundDecision(NamedTuple):
    """A result of a search for decisions."""

    id: str
    score: float
    status: str
    kind: str
    authority: str
    preview: str


class DecisionAnswer(NamedTuple):
    """Everything in it is as of `version` and `now`."""

    found: Sequence[FoundDecision]
    version: int
    now: Millis


class _Shown(NamedTuple):
    """What a candidate was made from."""

    candidate: ScoredCandidate
    kind: str
    preview: str


async def search_decisions(
    memory: MemorySpace, caller: MemoryCaller, ns: str, text: str, *, mode: SearchMode = "balanced", limit: int = 5
) -> DecisionAnswer:
    """The best first. Every result is read from the store at one version: strict never shows what is not active."""
    checked(text, "query")
    roles.check_namespace(caller, ns)
    await memory.index.reach(within=FRESH_SECONDS)
    nsh, now = ids.namespace_hash(ns), memory.clock.now()
    question = Question([nsh], text=text, kinds=(DECISION, PROPOSAL), limit=CANDIDATES_FACTOR * limit, now=now)
    if mode == "strict":
        question = question._replace(statuses=STRICT_STATUSES)
    while True:
        answer, candidates = await _ranked(memory, nsh, question, mode, limit)
        is_full = len(answer.found) >= limit or candidates < question.limit
        if mode == "audit" or is_full or question.limit >= CANDIDATES_MAX:
            return answer
        question = question._replace(limit=4 * question.limit)  # many versions of few targets match


async def _ranked(
    memory: MemorySpace, nsh: NamespaceHash, question: Question, mode: SearchMode, limit: int
) -> tuple[DecisionAnswer, int]:
    """The answer, and how many candidates it was made from."""
    hits, now = await memory.index.search(question), Millis(question.now)
    shares = scoring.similarities([hit.score for hit in hits.hits])
    similar = {hit.entity: share for hit, share in zip(hits.hits, shares, strict=True)}
    shown = await _shown(memory, similar, hits.version, now)
    actives = await _actives(memory, nsh, {one.candidate.target for one in shown}, similar, hits.version, now)
    known = {one.candidate.id: one for one in (*actives.values(), *shown)}
    by_target = {target: one.candidate for target, one in actives.items()}
    ranked = scoring.rank([one.candidate for one in shown], by_target, mode, limit)
    found = [_found(known[one.candidate.id], one.score) for one in ranked]
    return DecisionAnswer(found, hits.version, now), len(hits.hits)


async def _shown(memory: MemorySpace, similar: Mapping[str, float], version: int, now: Millis) -> list[_Shown]:
    made = [
        _of_memory(one.id, one.memory, similar[one.entity])
        for one in await read_memories(memory, [one for one in similar if ids.parts_of(one)], version=version)
        if one.memory.kind == DECISION and not instants.is_past(one.memory.expires_at, now)
    ]
    drafts = [entity for entity in similar if ids.proposal_parts_of(entity)]
    values = await memory.space.at(version=version).query(drafts) if drafts else {}
    for entity in drafts:
        parts, proposal = ids.proposal_parts_of(entity), proposal_of(values.get(entity))
        if parts is not None and proposal is not None and proposal.status == "draft":
            made.append(_of_proposal(parts[1], proposal, similar[entity]))
    return made


async def _actives(
    memory: MemorySpace,
    nsh: NamespaceHash,
    targets: Iterable[str],
    similar: Mapping[str, float],
    version: int,
    now: Millis,
) -> Mapping[str, _Shown]:
    """The active decision of each target at the version of the search."""
    entities = [ids.target_entity(nsh, target) for target in targets]
    states = await memory.space.at(version=version).query(entities) if entities else {}
    found = [target_of(states.get(entity)) for entity in entities]
    wanted = [ids.memory_entity(nsh, MemoryId(one.active)) for one in found if one is not None and one.active]
    return {
        str(one.memory.target): _of_memory(one.id, one.memory, similar.get(one.entity, 0.0))
        for one in await read_memories(memory, wanted, version=version)
        if one.memory.status == "active" and not instants.is_past(one.memory.expires_at, now)
    }


def _of_memory(uuid: MemoryId, one: Memory, similarity: float) -> _Shown:
    target = one.target or uuid
    return _Shown(
        ScoredCandidate(uuid, target, one.status, one.authority, similarity), DECISION, _preview(one.title, one.text)
    )


def _of_proposal(uuid: MemoryId, one: DecisionProposal, similarity: float) -> _Shown:
    candidate = ScoredCandidate(uuid, one.target, "draft", one.author_kind, similarity)
    return _Shown(candidate, PROPOSAL, _preview(one.title, one.rationale))


def _preview(title: str | None, text: str) -> str:
    return f"{title}: {text[:PREVIEW_CHARACTERS]}" if title else text[:PREVIEW_CHARACTERS]


def _found(one: _Shown, score: float) -> FoundDecision:
    candidate = one.candidate
    return FoundDecision(candidate.id, score, candidate.status, one.kind, candidate.authority, one.preview)
