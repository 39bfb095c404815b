"""JSON requests on a real server: gates, links, updates, reads; scores against one page of obvious code."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_worlds import ADMIN, AGENT, PLUGIN, TestClock, bytes_under, fact, memory_world
from stemmadb.memory.interfaces.json.answers import answer
from stemmadb.memory.operations import checking, memories
from stemmadb.memory.operations.forgetting import forget_memory, make_namespace
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules import ids, namespaces, records
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.roles import MemoryCaller

REPO = "acme.api"
NOBODY = "00000000-0000-4000-8000-000000000000"


class Lessons:
    """Requests of one caller."""

    def __init__(self, memory: MemorySpace, caller: MemoryCaller = AGENT) -> None:
        self.memory = memory
        self.caller = caller

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return await answer(self.memory, self.caller, request)

    async def ok(self, request: dict[str, Any]) -> dict[str, Any]:
        found = await self.ask(request)
        assert found["status"] == "ok", found
        data = found["data"]
        assert isinstance(data, dict)
        return data

    async def codes(self, request: dict[str, Any]) -> list[tuple[str, str]]:
        """What is wrong, after making sure that nothing was written."""
        await self.memory.space.settled()
        before = self.memory.index.head
        found = await self.ask(request)
        assert found["status"] == "error", found
        assert await self.head() == before, "a refusal writes nothing"
        return [(error["code"], error["field"]) for error in found["errors"]]

    async def head(self) -> int:
        entry = await self.memory.space.log(branch=None).first()
        assert entry is not None
        return entry.version

    async def write(self, text: str, kind: str = "fact", **fields: Any) -> str:
        return str((await self.ok(writing(text, kind, **fields)))["memory_id"])

    async def read(self, query: str, **fields: Any) -> list[dict[str, Any]]:
        request = {"op": "read", "repo_id": REPO, "mode": "targeted", "query": query} | fields
        found: list[dict[str, Any]] = (await self.ok(request))["memories"]
        return found


def writing(
    text: str, kind: str = "fact", *, repo: str = REPO, scope: str = "repo", confidence: float = 0.5, **links: Any
) -> dict[str, Any]:
    lesson = {"text": text, "scope": scope, "kind": kind, "confidence": confidence, "links": links}
    return {"op": "write", "repo_id": repo, "memory": lesson}


def updating(uuid: str, mode: str = "commit", repo: str = REPO, **updates: Any) -> dict[str, Any]:
    return {"op": "update", "repo_id": repo, "memory_id": uuid, "mode": mode, "updates": updates}


def towards(target: float, confidence: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"target": target, "confidence": confidence, "rationale": "seen", "evidence_refs": ["run 1"]} | more


@asynccontextmanager
async def lessons_world(path: Path, clock: TestClock | None = None) -> AsyncIterator[Lessons]:
    async with memory_world(path / "data", clock) as opened:
        yield Lessons(opened.memory)
        assert (await checking.check(opened.memory))[1] == []


@pytest.mark.rule("OPS-3")
async def test_a_write_makes_a_memory_with_links_that_both_ends_show(tmp_path: Path) -> None:
    async with lessons_world(tmp_path) as one:
        problem = await one.write("login fails at midnight", "problem", confidence=0.9)
        tried = await one.write("retry the login", "failed_tactic", problem_id=problem)
        fixed = await one.write("freeze the clock", "solution", problem_id=problem, related_memory_ids=[tried, tried])
        change = await one.write("clock moved to UTC", "change", change_targets=[problem, fixed])
        found = {memory["memory_id"]: memory for memory in await one.read("midnight login", kinds=[])}
        assert set(found) == {problem, tried, fixed, change}
        shown = found[problem]
        assert shown["text"] == "login fails at midnight"
        assert (shown["truth"], shown["utility"], shown["confidence"]) == (0.9, 0.5, 0.9)
        assert (shown["scope"], shown["repo_id"], shown["via"], shown["hop"]) == ("repo", REPO, "direct", 0)
        assert shown["links"] == {"attempts": sorted([tried, fixed])}
        assert shown["changed_by"] == [change]
        assert found[fixed]["links"] == {"problem_id": problem, "related_memory_ids": [tried]}
        assert found[tried]["links"]["related_memory_ids"] == [fixed]
        assert found[change]["links"] == {"change_targets": sorted([problem, fixed])}
        nsh = ids.namespace_hash(f"custom:{REPO}")
        stored = records.memory_of(await one.memory.space.get(ids.memory_entity(nsh, MemoryId(fixed))))
        assert stored is not None
        assert (stored.via, stored.authority) == ("json", "agent")
        link = {"/": {"link@1": {"id": ids.memory_entity(nsh, MemoryId(problem))}}}
        assert stored.links[f"problem:{problem}"] == link


@pytest.mark.rule("OPS-1")
async def test_links_that_lead_nowhere_are_integrity_errors_and_all_are_named(tmp_path: Path) -> None:
    async with lessons_world(tmp_path) as one:
        plain = await one.write("a fact")
        elsewhere = await one.write("a problem", "problem", repo="other")
        for problem in (NOBODY, plain, elsewhere, "no uuid"):
            request = writing("x", "solution", problem_id=problem)
            assert await one.codes(request) == [("integrity_error", "memory.links.problem_id")], problem
        request = writing("x", related_memory_ids=[plain, NOBODY, elsewhere])
        fields = [f"memory.links.related_memory_ids.{at}" for at in (1, 2)]
        assert await one.codes(request) == [("integrity_error", field) for field in fields]
        request = writing("x", "change", change_targets=[NOBODY])
        assert await one.codes(request) == [("integrity_error", "memory.links.change_targets.0")]
        request = updating(plain, utility=towards(1, context_problem_id=plain))
        assert await one.codes(request) == [("integrity_error", "updates.utility.context_problem_id")]


@pytest.mark.rule("OPS-4")
async def test_an_update_moves_values_with_an_observation_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    async with lessons_world(tmp_path) as one:
        problem = await one.write("login fails", "problem")
        fixed = await one.write("freeze the clock", "solution", problem_id=problem)
        utility = {"target": 1, "confidence": 1, "rationale": "helped", "context_problem_id": problem}
        before = await one.head()
        dry = await one.ok(updating(fixed, "dry_run", truth=towards(1, 0.8), utility=utility))
        assert await one.head() == before
        done = await one.ask(updating(fixed.upper(), truth=towards(1, 0.8), utility=utility))
        moved = {"truth": {"before": 0.5, "after": 0.7}, "utility": {"before": 0.5, "after": 0.575}}
        assert dry == {"memory_id": fixed, "committed": False} | moved
        assert done["data"] == {"memory_id": fixed, "committed": True} | moved
        assert (done["version"], await one.head()) == (before + 1, before + 1), "both in one commit"
        nsh = ids.namespace_hash(f"custom:{REPO}")
        kept = (await one.memory.space.list(ids.observations_of(nsh, MemoryId(fixed)) + "*")).values()
        seen = {value["field"]: value for value in kept if isinstance(value, dict)}
        assert set(seen) == {"truth", "utility"}
        assert (seen["truth"]["before"], seen["truth"]["after"], seen["truth"]["evidence"]) == (0.5, 0.7, ["run 1"])
        assert seen["utility"]["problem"] == problem
        (shown,) = await one.read("freeze clock", expand={"semantic_hops": 0})
        assert (shown["text"], shown["truth"], shown["utility"]) == ("freeze the clock", 0.7, 0.575)


@pytest.mark.rule("OPS-4")
async def test_updates_at_once_are_all_counted(tmp_path: Path) -> None:
    async with lessons_world(tmp_path) as one:
        uuid = await one.write("a fact", confidence=0.0)
        done = await asyncio.gather(*(one.ok(updating(uuid, truth=towards(1, 0.2))) for _ in range(10)))
        steps = sorted((answer["truth"]["before"], answer["truth"]["after"]) for answer in done)
        for (_, after), (before, _) in itertools.pairwise(steps):
            assert after == before, "each starts where another ended"


@pytest.mark.rule("OPS-4")
async def test_what_cannot_be_updated_is_not_found_or_forbidden(tmp_path: Path) -> None:
    clock = TestClock()
    async with lessons_world(tmp_path, clock) as one:
        elsewhere = await one.write("a fact", repo="other")
        gone = await one.write("a fact")
        await forget_memory(one.memory, ADMIN, MemoryId(gone))
        short = fact(f"custom:{REPO}", "short", expires_at=Millis(clock.now() + 1_000))
        expired = await memories.write_memory(one.memory, PLUGIN, short)
        summary = await memories.write_memory(one.memory, PLUGIN, fact(f"custom:{REPO}", "sum", kind="summary"))
        clock.pass_ms(2_000)
        for uuid in (elsewhere, gone, expired, summary, NOBODY, "no uuid"):
            for mode in ("commit", "dry_run"):
                assert await one.codes(updating(uuid, mode, truth=towards(1))) == [("not_found", "memory_id")], uuid
        mine = await one.write("a fact")
        viewer = Lessons(one.memory, AGENT._replace(role="viewer"))
        assert await viewer.codes(writing("x")) == [("forbidden", "")]
        assert await viewer.codes(updating(mine, truth=towards(1))) == [("forbidden", "")]
        assert [memory["text"] for memory in await viewer.read("fact")] == ["a fact"]
        limited = Lessons(one.memory, AGENT._replace(namespaces=frozenset({"custom:else"})))
        assert await limited.codes(writing("x")) == [("forbidden", "repo_id")]
        assert await limited.read("fact") == []


@pytest.mark.rule("OPS-6")
async def test_a_read_sees_its_repository_and_global_ones_and_never_writes(tmp_path: Path) -> None:
    async with lessons_world(tmp_path) as one:
        await one.write("zebra here")
        await one.write("zebra everywhere", scope="global")
        for repo in ("other", "h.odd", "odd name/\u00e9"):
            await one.write(f"zebra of {repo}", repo=repo)
        await memories.write_memory(one.memory, PLUGIN, fact(f"custom:{REPO}", "zebra summary", kind="summary"))
        head = await one.head()
        first, again = await one.read("zebra"), await one.read("zebra")
        assert {memory["text"] for memory in first} == {"zebra here", "zebra everywhere"}
        assert first == again
        assert {memory["repo_id"] for memory in first if memory["scope"] == "global"} == {None}
        assert [memory["text"] for memory in await one.read("zebra", include_global=False)] == ["zebra here"]
        assert [memory["text"] for memory in await one.read("zebra", repo_id="nowhere")] == ["zebra everywhere"]
        for repo in ("h.odd", "odd name/\u00e9"):
            (mine,) = await one.read("zebra", repo_id=repo, include_global=False)
            assert (mine["text"], mine["repo_id"]) == (f"zebra of {repo}", repo)
            stored = await one.memory.space.get(
                ids.namespace_entity(ids.namespace_hash(namespaces.of_repository(repo))), "/metadata"
            )
            assert stored == {"name": repo}
        assert await one.head() == head


@pytest.mark.rule("OPS-6")
@pytest.mark.parametrize(
    ("expand", "expected"),
    [
        ({}, {"problem", "solution", "change", "related", "far"}),
        ({"include_problem_links": False}, {"problem", "change", "related"}),
        ({"include_update_links": False}, {"problem", "solution", "related", "far"}),
        ({"include_problem_links": False, "include_update_links": False}, {"problem", "related"}),
        ({"semantic_hops": 1}, {"problem", "solution", "change", "related"}),
        ({"semantic_hops": 0}, {"problem"}),
    ],
)
async def test_links_lead_to_neighbours_unless_the_request_leaves_them_out(
    tmp_path: Path, expand: dict[str, Any], expected: set[str]
) -> None:
    async with lessons_world(tmp_path) as one:
        problem = await one.write("problem zebra", "problem")
        solution = await one.write("solution", "solution", problem_id=problem)
        await one.write("change", "change", change_targets=[problem])
        await one.write("related", related_memory_ids=[problem])
        await one.write("far", related_memory_ids=[solution])
        found = await one.read("zebra", expand=expand)
        assert {memory["text"].split()[0] for memory in found} == expected
        assert [memory["via"] for memory in found if memory["hop"] == 0] == ["direct"]
        hops = {memory["text"]: (memory["hop"], memory["score"]) for memory in found}
        if "far" in expected:
            assert hops["far"] == (2, round(0.5 * 0.75, 6))


@pytest.mark.rule("OPS-6")
async def test_a_memory_with_a_near_vector_is_an_implicit_neighbour(tmp_path: Path) -> None:
    async with lessons_world(tmp_path) as one:
        ns = f"custom:{REPO}"
        await make_namespace(one.memory, PLUGIN, ns, kind="custom")
        vectors = {"zebra": [1.0, 0.0], "near": [0.6, 0.8], "second": [-0.28, 0.96], "away": [-1.0, -0.2]}
        for text, numbers in vectors.items():
            await memories.write_memory(one.memory, PLUGIN, fact(ns, text), vector=records.read_embedding(numbers))
        found = {memory["text"]: memory for memory in await one.read("zebra")}
        assert {text: memory["via"] for text, memory in found.items()} == {
            "zebra": "direct",
            "near": "implicit",
            "second": "implicit",
        }
        assert found["near"]["score"] == pytest.approx(0.6 * 0.75, abs=1e-5)
        assert found["second"]["score"] == pytest.approx(0.6 * 0.6 / 2 * 0.75, abs=1e-5)
        assert (found["near"]["truth"], found["near"]["confidence"]) == (0.5, None)


@pytest.mark.rule("OPS-6")
async def test_a_direct_hit_has_enough_of_the_querys_words(tmp_path: Path) -> None:
    async with lessons_world(tmp_path) as one:
        await one.write("red green blue")
        await one.write("red green black")
        await one.write("red white black")
        for mode, expected in (("targeted", 2), ("ambient", 1)):
            found = await one.read("the reds, greens and blues", mode=mode)
            assert len(found) == expected, mode
        assert len(await one.read("red green blue", kinds=["problem"])) == 0


@pytest.mark.rule("OPS-7")
async def test_scores_are_those_of_obvious_code(tmp_path: Path) -> None:
    """BM25 by the textbook, truth and utility as weights, ties by id."""
    query = ["zebra", "river", "lake"]
    async with lessons_world(tmp_path) as one:
        texts = ["zebra zebra lake", "zebra river", "zebra river stone hill lake", "zebra lake", "river zebra"]
        texts += [f"filler {n} zebra" for n in range(9)]
        made = {await one.write(text, confidence=n / 20): (text.split(), n / 20) for n, text in enumerate(texts)}
        found = await one.read(" ".join(query), limit=100)
        matching = [text for text, _ in made.values() if set(text) & set(query)]
        mean = sum(len(text) for text in matching) / len(matching)
        bm25: dict[str, float] = {}
        for uuid, (text, _) in made.items():
            if len(set(query) & set(text)) / len(query) < 0.65:
                continue
            bm25[uuid] = 0.0
            for word in query:
                having = len([other for other, _ in made.values() if word in other])
                idf = math.log(1 + (len(made) - having + 0.5) / (having + 0.5))
                count = text.count(word)
                bm25[uuid] += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(text) / mean))
        best = max(bm25.values())
        expected = {
            uuid: round(value / best * (0.5 + 0.5 * made[uuid][1]) * (0.75 + 0.5 * 0.5), 6)
            for uuid, value in bm25.items()
        }
        scores = {memory["memory_id"]: memory["score"] for memory in found}
        assert len(scores) == 5
        assert scores == pytest.approx(expected, abs=2e-6)
        assert [memory["memory_id"] for memory in found] == sorted(scores, key=lambda uuid: (-scores[uuid], uuid))


async def test_first_writes_at_once_make_one_namespace_and_lose_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with lessons_world(tmp_path) as one:
        made = await asyncio.gather(*(one.write(f"zebra {number}") for number in range(80)))
        found = await one.read("zebra", limit=100)
        assert {memory["memory_id"] for memory in found} == set(made)
        assert len(await one.memory.space.list("urn:ns:*")) == 1
        assert "was refused" not in caplog.text, "none had to be tried again"


@pytest.mark.rule("MEM-7", "OPS-4")
async def test_forgetting_a_lesson_destroys_its_observations_and_hides_links_to_it(tmp_path: Path) -> None:
    async with memory_world(tmp_path / "data") as opened:
        one = Lessons(opened.memory)
        word = "ZEBRA-4711"
        uuid = await one.write(f"the word is {word}", "problem")
        fixed = await one.write("say no word", "solution", problem_id=uuid)
        await one.ok(updating(uuid, truth=towards(1, rationale=f"{word} again", evidence_refs=[word])))
        queued = await forget_memory(opened.memory, AGENT, MemoryId(uuid))
        assert queued is not None
        (shown,) = await one.read("say word")
        assert (shown["memory_id"], shown["links"]) == (fixed, {})
        await opened.job.erased(queued)
        assert await opened.memory.space.list("urn:observation:*") == {}
        assert (await checking.check(opened.memory))[1] == []
    assert word.encode() not in bytes_under(tmp_path / "data")
