"""Evaluating on the log: the difference between two versions of an answer, and values as of a version (RESUME-1)."""

from __future__ import annotations

import pytest

from asking import asked
from engines import engine
from feeds import applied, fresh, held, roots, v
from graphs import link
from space import ALICE, delete_, patch_, set_
from stemmadb.protocol.errors import Compacted, FutureVersion, LimitExceeded, UnknownBranch
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.plan import compaction
from stemmadb.server.service.watch import evaluation
from verdicts import X, Y, replace

EVERYTHING = ("",)
DRAFT = BranchName("draft")


@pytest.mark.rule("RESUME-1")
async def test_the_difference_leads_from_one_answer_to_the_other() -> None:
    async with engine() as it:
        await it.must(set_("urn:a", {"next": link("urn:b")}, blind=True), set_("urn:b", {"n": 1}, blind=True))
        await it.must(set_("urn:c", 1, blind=True))
        await it.must(patch_("urn:b", replace("/n", 2), blind=True))
        await it.must(set_("urn:a", {"next": link("urn:c")}, blind=True))
        await it.must(delete_("urn:a", blind=True))
        query = roots("urn:a", schema=True)
        answers = {version: await fresh(it, query, EVERYTHING, version) for version in range(1, 7)}
        for after in range(1, 7):
            for to in range(after, 7):
                told, delta = await evaluation.difference(
                    it.space, query, EVERYTHING, after=v(after), to=v(to), limits=DEFAULTS
                )
                before, now = answers[after], answers[to]
                assert before is not None
                assert (told, applied(before, delta)) == (to, now)
                assert all(before[id_] != held(delta.updated)[id_] for id_ in delta.updated)
        told, delta = await evaluation.difference(it.space, query, EVERYTHING, after=v(2), to=None, limits=DEFAULTS)
        assert (told, set(delta.left)) == (6, {"urn:a", "urn:b"})


async def test_the_difference_is_within_the_scope_and_on_the_branch() -> None:
    async with engine() as it:
        await it.must(set_("urn:a:1", 1, blind=True))
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=v(2)))
        await it.must(set_("urn:a:2", 1, blind=True), set_("urn:b:1", 1, blind=True), branch="draft")
        await it.must(set_("urn:a:3", 1, blind=True))
        query = roots("*", branch="draft")
        _, delta = await evaluation.difference(it.space, query, ("urn:a:",), after=v(3), to=None, limits=DEFAULTS)
        assert (set(delta.entered), set(delta.updated), set(delta.left)) == ({"urn:a:2"}, set(), set())
        await it.structure(BranchDelete(name=DRAFT))
        told, same = await evaluation.difference(it.space, query, ("urn:a:",), after=v(3), to=None, limits=DEFAULTS)
        assert (told, same) == (6, delta)


async def test_the_difference_says_what_cannot_be_told() -> None:
    async with engine() as it:
        await it.must(set_(X, 1, blind=True), set_(Y, 1, blind=True))
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=v(2)))

        async def between(after: int, to: int | None, branch: str = "main", limits: Limits = DEFAULTS) -> None:
            upto = None if to is None else v(to)
            query = roots("urn:*", branch=branch)
            await evaluation.difference(it.space, query, EVERYTHING, after=v(after), to=upto, limits=limits)

        with pytest.raises(FutureVersion):
            await between(1, 9)
        with pytest.raises(UnknownBranch):
            await between(1, 3, branch="no")
        with pytest.raises(UnknownBranch):
            await between(1, 3, branch="draft")
        with pytest.raises(LimitExceeded):
            await between(1, 3, limits=Limits(query_entities_max=1))
        await it.must(set_(X, 2, blind=True))
        await compaction.compact(it.space, asked("c", author=ALICE), v(4), now=it.clock())
        with pytest.raises(Compacted):
            await between(2, None)


async def test_values_are_as_of_a_version_and_what_is_not_there_is_left_out() -> None:
    async with engine() as it:
        await it.must(set_(X, 1, blind=True), set_("urn:out", 1, blind=True))
        await it.must(set_(X, 2, blind=True), set_(Y, 1, blind=True))
        await it.must(delete_(Y, blind=True))
        ids = [EntityId(id_) for id_ in (X, Y, "urn:none", "urn:out", X)]
        scope = (X, Y, "urn:none")

        async def values(version: int) -> dict[str, object]:
            found = await evaluation.values(it.space, MAIN, ids, v(version), scope)
            return {id_: entity.value for id_, entity in found.items()}

        assert [await values(version) for version in (1, 2, 3, 4)] == [{}, {X: 1}, {X: 2, Y: 1}, {X: 2}]
        assert list(await values(3)) == [X, Y]
