"""Watch groups: one evaluation for all who ask the same, stepped at the cost of the change (WATCH-2, RESUME-1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engines import Engine, Held, engine, turns
from feeds import Calls, Holder, feeding, fresh, held, roots, v
from graphs import link
from space import delete_, set_
from stemmadb.protocol.errors import (
    BranchDeleted,
    Compacted,
    GoingAway,
    Internal,
    InvalidQuery,
    LimitExceeded,
    Unavailable,
    UnknownBranch,
)
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete
from stemmadb.protocol.model.query.query import Query, Root, prepare
from stemmadb.protocol.model.values.ids import MAIN, BranchName
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.service.watch import evaluation
from stemmadb.server.service.watch import watch_groups as grouping
from stemmadb.server.service.watch.feed import Feed
from stemmadb.server.service.watch.watch_group import WatchGroup
from verdicts import X, Y

EVERYTHING = ("",)
DRAFT = BranchName("draft")


async def settle(feed: Feed) -> None:
    """As when the time to join is over."""
    for group in tuple(feed.groups._groups.values()):
        feed.groups._release(group)


@pytest.mark.rule("WATCH-2")
async def test_the_same_query_and_scope_share_a_group() -> None:
    async with engine() as it, feeding(it) as feed:
        one = await feed.groups.get(roots("urn:*"), EVERYTHING)
        assert await feed.groups.get(roots("urn:*"), EVERYTHING) is one
        assert await feed.groups.get(roots("urn:*"), ("urn:a",)) is not one
        assert await feed.groups.get(roots("urn:a*"), EVERYTHING) is not one
        assert feed.groups.count == 3


@pytest.mark.rule("WATCH-2")
async def test_those_who_ask_at_once_share_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        fills = count_calls(monkeypatch, evaluation, "fill")
        first = asyncio.ensure_future(feed.groups.get(roots("urn:*"), EVERYTHING))
        second = asyncio.ensure_future(feed.groups.get(roots("urn:*"), EVERYTHING))
        third = asyncio.ensure_future(feed.groups.get(roots("urn:*"), EVERYTHING))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is await third
        assert first.cancelled()
        assert len(fills) == 1


def count_calls(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[Any]:
    calls: list[Any] = []
    real = getattr(where, name)

    def counted(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return real(*args, **named)

    monkeypatch.setattr(where, name, counted)
    return calls


@pytest.mark.rule("WATCH-2")
async def test_a_commit_costs_the_groups_that_it_concerns_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        for n in range(100):
            await feed.groups.get(roots(f"urn:id:{n}", f"urn:under:{n}:*"), EVERYTHING)
            await feed.groups.get(roots("*"), (f"urn:mine:{n}:",))
        steps = count_calls(monkeypatch, WatchGroup, "step")
        await it.must(set_("urn:nobody", 1, blind=True))
        assert steps == []
        await it.must(set_("urn:id:1", 1, blind=True), set_("urn:under:2:x", 1, blind=True))
        await it.must(set_("urn:mine:3:x", 1, blind=True))
        assert [sorted(args[2]) for args in steps] == [["urn:id:1"], ["urn:under:2:x"], ["urn:mine:3:x"]]


@pytest.mark.rule("WATCH-2")
async def test_what_a_watch_no_longer_depends_on_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        await it.must(set_(X, link(Y), blind=True), set_(Y, 1, blind=True))
        group = await feed.groups.get(roots(X, schema=True), EVERYTHING)
        steps = count_calls(monkeypatch, WatchGroup, "step")
        await it.must(set_(Y, 2, blind=True))
        await it.must(set_(X, 1, blind=True))
        assert (len(steps), group.entities()) == (2, {X})
        await it.must(set_(Y, 3, blind=True))
        assert len(steps) == 2


async def test_errors_of_the_evaluation_are_raised_and_nothing_is_kept() -> None:
    async with engine(limits=Limits(query_entities_max=1)) as it, feeding(it) as feed:
        await it.must(set_(X, 1, blind=True), set_(Y, 1, blind=True))
        at_version = prepare(Query(roots=(Root(id=X),), version=1))
        asked = [(roots("urn:*"), LimitExceeded), (roots(X, branch="no"), UnknownBranch), (at_version, InvalidQuery)]
        for query, error in asked:
            told = await asyncio.gather(
                *(feed.groups.get(query, EVERYTHING) for _ in range(2)), return_exceptions=True
            )
            assert [type(one) for one in told] == [error, error]
            assert told[0] is not told[1]
        assert (feed.groups.count, len(feed.groups._filling)) == (0, 0)
        await it.must(delete_(Y, blind=True))
        assert (await feed.groups.get(roots("urn:*"), EVERYTHING)).entities() == {X}


async def test_a_group_that_is_over_before_it_was_handed_out_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        real = feed.groups._fill

        async def made_and_over(key: Any) -> Any:
            group = await real(key)
            assert isinstance(group, WatchGroup)
            feed.groups._dismiss(group)
            return group

        monkeypatch.setattr(feed.groups, "_fill", made_and_over)
        with pytest.raises(Unavailable):
            await feed.groups.get(roots(X), EVERYTHING)
        assert feed.groups.count == 0


async def test_an_internal_error_in_the_evaluation_is_internal_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        reported = reports()
        with monkeypatch.context() as patching:
            patching.setattr(evaluation, "may_read", None)
            with pytest.raises(Internal):
                await feed.groups.get(roots(X), EVERYTHING)
        assert [type(one) for one in reported] == [TypeError]
        await feed.groups.get(roots(X), EVERYTHING)


def reports() -> list[BaseException]:
    reported: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    return reported


async def test_a_step_that_passes_a_bound_ends_the_group() -> None:
    async with engine(limits=Limits(query_entities_max=1)) as it, feeding(it) as feed:
        group = await feed.groups.get(roots("urn:*"), EVERYTHING)
        calls = Calls(feed)
        group.join(calls)
        await it.must(set_(X, 1, blind=True))
        await it.must(set_(Y, 1, blind=True))
        assert isinstance(group.error, LimitExceeded)
        assert (group.at, feed.version, calls.told) == (2, 3, [(2, 2), (3, 2)])
        await it.must(delete_(Y, blind=True))
        assert (group.at, len(calls.told), feed.groups.count) == (2, 2, 0)
        again = await feed.groups.get(roots("urn:*"), EVERYTHING)
        assert (again.error, again.at, again.entities()) == (None, 4, {X})
        delta = group.delta(v(1), v(2))
        assert delta is not None
        assert delta.entered.keys() == {X}


async def test_an_internal_error_in_a_step_ends_the_group_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        reported = reports()
        group = await feed.groups.get(roots(X), EVERYTHING)
        other = await feed.groups.get(roots("urn:*"), EVERYTHING)
        calls = Calls(feed)
        group.join(calls)
        monkeypatch.setattr(group.watch, "step", None)
        await it.must(set_(X, 1, blind=True))
        assert isinstance(group.error, Internal)
        assert [type(one) for one in reported] == [TypeError]
        assert (calls.told, other.at, other.entities()) == ([(2, 1)], 2, {X})


async def test_what_is_out_of_scope_is_not_there() -> None:
    async with engine() as it, feeding(it) as feed:
        await it.must(set_("urn:a:1", {"next": link("urn:b:1")}, blind=True), set_("urn:b:1", 1, blind=True))
        narrow = Holder(it, feed, roots("*", schema=True), ("urn:a:",))
        nobody = Holder(it, feed, roots("*"), ())
        for one in (narrow, nobody):
            await one.begin()
        await it.must(set_("urn:b:1", 2, blind=True), set_("urn:a:2", 1, blind=True), set_("urn:b:2", 1, blind=True))
        for one in (narrow, nobody):
            await one.take(feed.version)
            assert one.held == await fresh(it, one.prepared, one.scope, feed.version)
        assert narrow.held.keys() == {"urn:a:1", "urn:a:2"}
        assert nobody.held == {}
        await it.must(set_("urn:a:2", {"next": link("urn:b:3")}, blind=True), set_("urn:b:3", 1, blind=True))
        await narrow.take(feed.version)
        assert narrow.held == await fresh(it, narrow.prepared, narrow.scope, feed.version)
        assert narrow.held.keys() == {"urn:a:1", "urn:a:2"}


@pytest.mark.rule("BRANCH-1")
async def test_a_deleted_branch_ends_its_groups_and_no_others() -> None:
    async with engine() as it, feeding(it) as feed:
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=v(1)))
        on_draft = await feed.groups.get(roots("urn:*", branch="draft"), EVERYTHING)
        on_main = await feed.groups.get(roots("urn:*"), EVERYTHING)
        calls = Calls(feed)
        on_draft.join(calls)
        await it.must(set_(X, 1, blind=True), branch="draft")
        await it.structure(BranchDelete(name=DRAFT))
        await it.must(set_(X, 1, blind=True))
        assert isinstance(on_draft.error, BranchDeleted)
        assert (on_draft.at, on_draft.entities(), calls.told) == (4, {X}, [(3, 3), (4, 4)])
        assert (on_main.error, on_main.at) == (None, 5)
        with pytest.raises(BranchDeleted):
            await feed.groups.get(roots("urn:*", branch="draft"), EVERYTHING)


async def test_a_branch_is_watched_as_it_is_and_not_as_its_parent_becomes() -> None:
    async with engine() as it, feeding(it) as feed:
        await it.must(set_(X, 1, blind=True))
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=v(2)))
        group = await feed.groups.get(roots("urn:*", branch="draft"), EVERYTHING)
        await it.must(set_(X, 2, blind=True), set_(Y, 1, blind=True))
        assert (group.entities(), group.delta(v(3), v(4))) == ({X}, group.delta(v(3), v(3)))


async def test_a_branch_made_after_what_was_told_is_not_known_yet() -> None:
    async with engine() as it:
        await it.must(set_(X, 1, blind=True))
        await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=v(2)))
        with pytest.raises(UnknownBranch):
            await it.space.read(
                lambda reader: evaluation.fill(
                    reader, roots(X, branch="draft"), EVERYTHING, version=v(1), limits=it.space.limits
                )
            )


# ---------------------------------------------------------------- the first values


async def test_the_first_values_are_those_of_the_answer_until_they_are_dropped() -> None:
    async with engine() as it, feeding(it) as feed:
        await it.must(set_(X, 1, blind=True), set_(Y, 1, blind=True))
        group = await feed.groups.get(roots("urn:*"), EVERYTHING)
        before = group.first()
        await it.must(set_(X, 2, blind=True), delete_(Y, blind=True), set_("urn:z", 1, blind=True))
        first = group.first()
        assert before is not None
        assert first is not None
        assert held(dict(before)) == await fresh(it, roots("urn:*"), EVERYTHING, 2)
        assert held(dict(first)) == await fresh(it, roots("urn:*"), EVERYTHING, 3)
        await settle(feed)
        assert group.first() is None
        await it.must(set_(X, 3, blind=True))
        assert group.first() is None


async def test_large_values_and_those_of_many_groups_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "FIRSTS_MAX", 2)
    async with engine(limits=Limits(part_bytes_max=2_000)) as it, feeding(it) as feed:
        await it.must(set_(X, "x" * 1_990, blind=True), set_(Y, "y" * 1_990, blind=True))
        both = await feed.groups.get(roots("urn:*"), EVERYTHING)
        assert both.first() is None
        made = [await feed.groups.get(roots(id_), EVERYTHING) for id_ in (X, Y, "urn:z")]
        assert [group.first() is None for group in made] == [True, False, False]


# ---------------------------------------------------------------- members, and groups without


async def test_a_member_is_told_until_it_has_left_as_often_as_it_joined() -> None:
    async with engine() as it, feeding(it) as feed:
        group = await feed.groups.get(roots(X), EVERYTHING)
        calls = Calls(feed)
        group.join(calls)
        group.join(calls)
        await it.must(set_(X, 1, blind=True))
        group.leave(calls)
        await it.must(set_(X, 2, blind=True))
        await it.must(set_(Y, 2, blind=True))
        group.leave(calls)
        await it.must(set_(X, 3, blind=True))
        assert calls.told == [(2, 2), (3, 3)]


@pytest.mark.rule("RESUME-1")
async def test_a_group_that_everybody_left_goes_on_for_those_who_come_back() -> None:
    async with engine() as it, feeding(it, batches_max=100) as feed:
        holder = Holder(it, feed, roots("urn:*"))
        await holder.begin()
        holder.end()
        for n in range(5):
            await it.must(set_(X, n, blind=True))
        again = await feed.groups.get(roots("urn:*"), EVERYTHING)
        assert again is holder.group
        delta = again.delta(holder.version, feed.version)
        assert delta is not None
        assert {id_: entity.value for id_, entity in delta.entered.items()} == {X: 4}


async def test_only_so_many_linger_and_the_oldest_go_first() -> None:
    async with engine() as it, feeding(it, idle_max=2) as feed:
        holders = [Holder(it, feed, roots(f"urn:{n}")) for n in range(4)]
        for holder in holders:
            await holder.begin()
        for number in (1, 0, 2, 3):
            holders[number].end()
        gone = [isinstance(holder.group.error, Unavailable) for holder in holders]
        assert gone == [True, True, False, False]
        assert feed.groups.count == 2
        await it.must(set_("urn:0", 1, blind=True), set_("urn:2", 1, blind=True))
        assert (holders[0].group.entities(), holders[2].group.entities()) == (set(), {"urn:2"})
        used = Holder(it, feed, roots("urn:2"))
        await used.begin()
        for number in range(5, 9):
            await settled_group(it, feed, f"urn:{number}")
        assert used.group.error is None


async def settled_group(it: Engine, feed: Feed, id_: str) -> WatchGroup:
    holder = Holder(it, feed, roots(id_))
    await holder.begin()
    holder.end()
    return holder.group


async def test_only_so_many_entities_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        monkeypatch.setattr(feed.groups._idle, "_size_max", 3)
        await it.must(*(set_(f"urn:{kind}:{n}", 1, blind=True) for kind in "ab" for n in range(2)))
        one = await settled_group(it, feed, "urn:a:*")
        assert one.error is None
        assert feed.groups.entities == 2
        other = await settled_group(it, feed, "urn:b:*")
        assert (one.error is None, other.error) == (False, None)


async def test_one_who_was_given_a_group_has_time_to_join() -> None:
    async with engine() as it, feeding(it, idle_max=0) as feed:
        group = await feed.groups.get(roots(X), EVERYTHING)
        await turns()
        assert feed.groups.count == 1
        await settle(feed)
        assert (feed.groups.count, type(group.error)) == (0, Unavailable)
        used = Holder(it, feed, roots(X))
        await used.begin()
        await settle(feed)
        assert used.group.error is None


async def test_there_are_only_so_many_groups() -> None:
    async with engine() as it, feeding(it, groups_max=2) as feed:
        used = Holder(it, feed, roots(X))
        await used.begin()
        idle = await settled_group(it, feed, Y)
        other = Holder(it, feed, roots("urn:z"))
        await other.begin()
        assert idle.error is not None
        with pytest.raises(LimitExceeded, match="groups_max"):
            await feed.groups.get(roots(Y), EVERYTHING)
        assert await feed.groups.get(roots(X), EVERYTHING) is used.group


async def test_who_waits_for_an_evaluation_is_told_that_it_stops() -> None:
    reading = Held()
    async with engine(workers=Executors(executors.Inline(), reading)) as it, feeding(it) as feed:
        reading.is_held = True
        waiting = asyncio.ensure_future(feed.groups.get(roots(X), EVERYTHING))
        await turns()
        feed.stop()
        with pytest.raises(GoingAway):
            await waiting


async def test_an_evaluation_below_a_new_floor_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it, feeding(it) as feed:
        real, failures = evaluation.fill, [Compacted(version=1, oldest=2)] * 3

        def sometimes(*args: Any, **named: Any) -> Any:
            if failures:
                raise failures.pop()
            return real(*args, **named)

        monkeypatch.setattr(evaluation, "fill", sometimes)
        assert (await feed.groups.get(roots(X), EVERYTHING)).at == 1
        failures += [Compacted(version=1, oldest=2)] * 100
        with pytest.raises(Unavailable):
            await feed.groups.get(roots(Y), EVERYTHING)
