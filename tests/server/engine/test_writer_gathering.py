"""What the writer gathers: cold heads, their recent changes, and listings, as far as a decision needs them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from engine_scripts import verify
from engines import Engine, Held, LonelyStorage, engine, turns
from space import ALICE, BOB, SPACE, delete_, patch_, prefix_, read_, session_of, set_, structural
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.proposal import Step
from stemmadb.protocol.model.commit.request import Read
from stemmadb.protocol.model.log.commit_record import (
    BranchCreate,
    Compact,
    LocalIdentity,
    OperationIdentity,
    TagCreate,
)
from stemmadb.protocol.model.log.state import NotGathered
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.head_cache import HeadCache
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.write.batch_view import BatchView
from stemmadb.server.engine.write.gather import ChangedIds, ReadsNeeded, gather
from stemmadb.server.engine.write.needs import LISTED_MIN, UNREAD, Needs, Prefix
from stemmadb.server.engine.write.writer_state import WriterState
from stemmadb.server.storage.port import Tip
from verdicts import X, Y, code, refusal, replace

COLD = Settings(cache_bytes_max=0, sessions_max=1, names_max=1)


async def history_of_x(it: Engine, patches: int = 6) -> None:
    """X is set at 2 and patched at /a from then on, one version after the other, by two authors."""
    await it.must(set_(X, {"a": 0, "b": 0}, blind=True))
    for number in range(patches):
        await it.must(patch_(X, replace("/a", number), blind=True), author=ALICE if number % 2 else BOB)


async def reading(it: Engine, *reads: Read, **how: Any) -> str:
    """The verdict on a commit that writes elsewhere and makes these reads."""
    return code(await it.commit(set_(Y, 1, blind=True), reads=reads, **how))


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("sizes", [COLD, Settings()], ids=["cold", "warm"])
async def test_no_read_is_refused_because_the_entity_was_cold(sizes: Settings) -> None:
    async with engine(LonelyStorage(), sizes=sizes) as it:
        await history_of_x(it)
        assert [await reading(it, read_(X, version, "/b")) for version in range(1, 9)] == ["conflict"] + [
            "accepted"
        ] * 7
        assert [await reading(it, read_(X, version, "/a")) for version in (2, 7, 8)] == ["conflict"] * 2 + [
            "accepted"
        ]
        stale = refusal(await it.commit(patch_(X, replace("/a", 1)), reads=[read_(X, 5, "/a")]))
        assert (stale.facts["stale"][0].winner, stale.facts["stale"][0].author) == (8, ALICE)


@pytest.mark.rule("COMMIT-2")
async def test_an_older_read_than_the_one_before_holds_after_a_restart() -> None:
    storage = LonelyStorage()
    async with engine(storage) as it:
        await history_of_x(it)
        await it.must(set_(X, {"a": 0, "b": 0}, blind=True), session="own", local=1)
        await it.must(patch_(X, replace("/a", 1), blind=True))
    async with engine(storage) as it:
        # First it is loaded for a recent read, then again with more of its changes.
        assert await reading(it, read_(X, 9, "/b"), session="t") == "accepted"
        assert await reading(it, read_(X, 8, "/b"), session="t") == "conflict"
        assert await reading(it, read_(X, 2, "/b", through=[1]), session="own", local=2) == "accepted"
        assert await reading(it, read_(X, 2, "/a", through=[1]), session="own", local=3) == "conflict"


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("sizes", [COLD, Settings()], ids=["cold", "warm"])
async def test_changes_beyond_what_is_scanned_count_as_overlap(sizes: Settings) -> None:
    limits = msgspec.structs.replace(DEFAULTS, scan_facts_max=4)
    async with engine(LonelyStorage(), limits=limits, sizes=sizes) as it:
        await history_of_x(it, patches=12)
        assert it.space.version == 14
        assert [await reading(it, read_(X, version, "/b")) for version in (10, 9, 2)] == ["accepted"] + [
            "conflict"
        ] * 2
        beyond = refusal(await it.commit(set_(Y, 1, blind=True), reads=[read_(X, 3, "/b")]))
        assert beyond.facts["stale"][0].author is None  # nobody looked that far


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize(
    ("scan", "since", "seen_after"), [(10, 2, 22), (10, 25, 25), (10, 32, 32), (100, 3, 3), (30, 2, 2), (29, 2, 3)]
)
async def test_a_gathering_reads_no_more_changes_than_are_ever_scanned(
    scan: int, since: int, seen_after: int
) -> None:
    async with engine(LonelyStorage()) as it:
        for number in range(31):
            await it.must(set_(X, number, blind=True))
        wanted = ReadsNeeded(heads={MAIN: {EntityId(X): Version(since)}})
        gathered = await it.space.in_turn(lambda log: gather(log, wanted, scan))
        state = gathered.heads[MAIN, EntityId(X)]
        assert state.seen_after == seen_after
        assert [change.version for change in state.changes or ()] == list(range(32, min(seen_after, 31), -1))


@pytest.mark.rule("COMMIT-2")
async def test_the_changes_of_a_branch_are_bounded_across_its_fork() -> None:
    async with engine(LonelyStorage()) as it:
        await history_of_x(it)
        draft = BranchName("draft")
        await it.structure(BranchCreate(name=draft, parent=MAIN, fork=Version(6)))
        await it.must(set_(X, 1, blind=True), branch="draft")
        await it.must(set_(X, 1, blind=True))
        for since, scan, versions in (
            (3, 2, [10, 6]),
            (3, 3, [10, 6, 5]),
            (3, 4, [10, 6, 5, 4]),
            (3, 9, [10, 6, 5, 4]),
        ):
            wanted = ReadsNeeded(heads={draft: {EntityId(X): Version(since)}})
            gathered = await it.space.in_turn(lambda log, w=wanted, s=scan: gather(log, w, s))  # type: ignore[misc]
            changes = gathered.heads[draft, EntityId(X)].changes
            assert [change.version for change in changes or ()] == versions


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize("sizes", [COLD, Settings()], ids=["cold", "warm"])
async def test_a_prefix_read_looks_past_any_number_of_own_commits(sizes: Settings) -> None:
    """All that changed under the prefix is the reader's own: the listing has to be long enough to see that."""
    async with engine(LonelyStorage(), sizes=sizes) as it:
        count = 3 * LISTED_MIN
        for local in range(1, count + 1):
            await it.must(set_(f"urn:todo:{local}", 1, blind=True), session="t", local=local)
        through = list(range(1, count + 1))
        own = await it.commit(set_(X, 1), reads=[prefix_("urn:todo:", 1, through=through), read_(X, 1)], session="t")
        assert code(own) == "accepted"
        reads = [prefix_("urn:todo:", 1, through=through[:-1])]
        assert code(await it.commit(set_(Y, 1, blind=True), reads=reads, session="t")) == "conflict"
        assert code(await it.commit(set_(Y, 1, blind=True), reads=[prefix_("urn:none:", 1)])) == "accepted"


@pytest.mark.rule("COMMIT-2")
async def test_a_listing_longer_than_what_is_scanned_counts_as_overlap() -> None:
    limits = msgspec.structs.replace(DEFAULTS, scan_facts_max=5)
    async with engine(LonelyStorage(), limits=limits) as it:
        for local in range(1, 8):
            await it.must(set_(f"urn:todo:{local}", 1, blind=True), session="t", local=local)
        reads = [prefix_("urn:todo:", 1, through=list(range(1, 8)))]
        told = refusal(await it.commit(set_(Y, 1, blind=True), reads=reads, session="t"))
        assert isinstance(told, errors.Conflict)
        reads = [prefix_("urn:todo:", 4, through=list(range(1, 8)))]
        assert code(await it.commit(set_(Y, 1, blind=True), reads=reads, session="t")) == "accepted"


@pytest.mark.rule("COMMIT-2")
async def test_a_listing_that_was_too_short_in_the_middle_of_a_batch_ends_it_there() -> None:
    async with engine(LonelyStorage()) as it:
        count = 2 * LISTED_MIN
        for local in range(1, count + 1):
            await it.must(set_(f"urn:todo:{local}", 1, blind=True), session="t", local=local)
        through = list(range(1, count + 1))
        batch = [
            it.propose(set_(X, 1, blind=True), session="u"),
            it.propose(set_(X, 2, blind=True), reads=[prefix_("urn:todo:", 1, through=through)], session="t"),
            it.propose(set_(X, 3, blind=True), session="u"),
        ]
        outcomes = await asyncio.gather(*[it.space.decide(proposal) for proposal in batch])
        assert [code(one) for one in outcomes] == ["accepted"] * 3
        assert await it.value(X) == 3


@pytest.mark.rule("COMMIT-2", "COMMIT-4")
async def test_a_head_that_is_read_by_name_and_found_by_prefix_keeps_all_its_changes() -> None:
    async with engine(LonelyStorage()) as it:
        for number in range(3):
            await it.must(set_(X, number, blind=True), session="own")
        reads = [read_(X, 2, through=[2, 3]), prefix_("urn:x", 3, through=[3])]
        assert await reading(it, *reads, session="own") == "accepted"


@pytest.mark.rule("COMMIT-2")
async def test_a_listing_that_was_read_before_a_batch_landed_does_not_bring_old_heads_back() -> None:
    writing = Held()
    async with engine(LonelyStorage(), workers=Executors(writing, executors.Inline())) as it:
        await it.must(set_(X, "old", blind=True))
        writing.is_held = True
        newer = asyncio.ensure_future(it.commit(set_(X, "newer", blind=True)))
        await turns()
        listing = asyncio.ensure_future(reading(it, prefix_("urn:x", 1), session="t"))
        await turns()
        writing.step(newest=True)  # the gathering sees the log without what is in flight
        writing.release()
        assert code(await newer) == "accepted"
        assert await listing == "conflict"
        assert await reading(it, read_(X, 2), session="u") == "conflict"


@pytest.mark.rule("COMMIT-5")
async def test_the_order_of_a_session_is_known_although_its_last_commit_is_in_flight() -> None:
    writing = Held()
    workers, sizes = Executors(writing, executors.Inline()), Settings(sessions_max=1)
    async with engine(LonelyStorage(), workers=workers, sizes=sizes) as it:
        await it.must(set_(X, 1, blind=True))
        writing.is_held = True
        first = asyncio.ensure_future(it.commit(set_(X, 2, blind=True), session="t", local=7))
        other = asyncio.ensure_future(it.commit(set_(X, 3, blind=True), session="u", local=1))
        await turns()
        writing.step()
        await turns()
        late = asyncio.ensure_future(it.commit(set_(X, 4, blind=True), session="t", local=5))
        await turns()
        writing.step(newest=True)
        writing.release()
        assert [code(await one) for one in (first, other, late)] == ["accepted", "accepted", "overtaken"]


@pytest.mark.rule("FACT-1", "COMMIT-2")
@pytest.mark.parametrize("sizes", [COLD, Settings()], ids=["cold", "warm"])
async def test_a_checkpoint_is_no_change_to_any_read(sizes: Settings) -> None:
    async with engine(LonelyStorage(), sizes=sizes) as it:
        await history_of_x(it)
        value = await it.value(X)
        step = Step("checkpoint", MAIN, EntityId(X), encode(value), value, 0, (), ())
        made = structural(Compact(floor=Version(1)), "compact")
        assert code(await it.space.decide(msgspec.structs.replace(made, steps=(step,)))) == "accepted"
        assert await reading(it, read_(X, 8), prefix_("urn:x", 8)) == "accepted"
        assert await reading(it, read_(X, 7, "/b")) == "accepted"
        assert await reading(it, prefix_("urn:x", 7)) == "conflict"
        assert code(await it.commit(patch_(X, replace("/a", 9), blind=True))) == "accepted"
        await it.space.read(verify)


@pytest.mark.rule("COMMIT-2", "COMMIT-4")
@pytest.mark.parametrize("read", [read_(X, 3), prefix_("urn:x", 3)], ids=["id", "prefix"])
async def test_older_changes_of_what_is_in_flight_are_read_once_it_has_landed(read: Read) -> None:
    storage = LonelyStorage()
    async with engine(storage) as it:
        await it.must(set_(X, "another's", blind=True))
        await it.must(set_(X, "another's", blind=True))
        await it.must(set_(X, "own", blind=True), session="own", local=1)
    writing = Held()
    async with engine(storage, workers=Executors(writing, executors.Inline())) as it:
        await it.must(set_(Y, 1, blind=True), session="own", local=5)
        # X is loaded for a blind write, so that of its changes only the last is known.
        warm = it.propose(set_(X, "mine", blind=True), session="own2", local=1)
        writing.is_held = True
        first = asyncio.ensure_future(it.space.decide(warm))
        await turns()
        writing.step()
        await turns()
        assert len(writing) == 1
        named = [(session_of("own"), 1), (session_of("own2"), 1)]
        through = msgspec.structs.replace(read, locals=tuple(named))
        second = asyncio.ensure_future(reading(it, through, session="own2", local=2))
        await turns()
        assert len(writing) == 1  # it waits for the flight
        writing.release()
        assert code(await first) == "accepted"
        assert await second == "accepted"
        older = msgspec.structs.replace(through, version=Version(2))
        assert await reading(it, older, session="own2", local=3) == "conflict"


async def test_deleted_and_absent_entities_are_known_as_such() -> None:
    async with engine(LonelyStorage(), sizes=COLD) as it:
        await it.must(set_(X, 1, blind=True))
        await it.must(delete_(X, blind=True))
        assert code(await it.commit(patch_(X, replace("", 1), blind=True))) == "not_found"
        assert code(await it.commit(patch_(Y, replace("", 1), blind=True))) == "not_found"
        assert code(await it.commit(set_(X, 1), reads=[read_(X, 2)])) == "conflict"
        assert code(await it.commit(set_(Y, 1), reads=[read_(Y, 0)])) == "accepted"


async def test_named_commits_of_another_session_are_looked_up() -> None:
    async with engine(LonelyStorage(), sizes=COLD) as it:
        await it.must(set_(X, 1, blind=True), session="old")
        fine = await it.commit(set_(X, 2), reads=[read_(X, 1, through=[(session_of("old"), 1)])], session="new")
        assert code(fine) == "accepted"
        none = await it.commit(set_(X, 2), reads=[read_(X, 1, through=[(session_of("old"), 2)])], session="new")
        assert code(none) == "dependency"


# ---------------------------------------------------------------- the parts


def test_needs_name_everything_a_proposal_touches() -> None:
    made = Needs([], SPACE)
    assert made.heads == {(MAIN, EntityId(SPACE)): UNREAD}
    with pytest.raises(AssertionError, match="not foreseen"):
        made.widen(NotGathered("x"))
    made.prefixes[prefix := Prefix(MAIN, "urn:", Version(1))] = 2
    made.widen(NotGathered(prefix))
    assert made.prefixes[prefix] > 2


def test_a_view_says_what_was_not_gathered() -> None:
    view = BatchView(SPACE, {}, 10)
    for ask in (
        lambda: view.branch("main"),
        lambda: view.tag("v1"),
        lambda: view.entity(MAIN, EntityId(X)),
        lambda: view.rights(ALICE),
        lambda: list(view.changed_under(MAIN, "urn:", Version(0))),
        lambda: view.accepted(LocalIdentity(ALICE, b"s", Local(1))),
        lambda: view.accepted(OperationIdentity(ALICE, b"o")),
        lambda: view.highest_local(ALICE, b"s"),
    ):
        with pytest.raises(NotGathered):
            ask()


def test_a_local_is_new_only_above_the_highest_of_its_session() -> None:
    view = BatchView(SPACE, {}, 10)
    view.highest[ALICE, b"s"] = Local(4)
    assert view.accepted(LocalIdentity(ALICE, b"s", Local(5))) is None
    with pytest.raises(NotGathered):
        view.accepted(LocalIdentity(ALICE, b"s", Local(4)))
    view.listed[Prefix(MAIN, "urn:", Version(0))] = ChangedIds([], is_whole=True)
    assert list(view.changed_under(MAIN, "urn:", Version(0))) == []


async def test_what_is_fresh_goes_before_what_a_gathering_read_without_it() -> None:
    """The gathering began while a batch was in flight, and the cache has lost its heads meanwhile."""
    async with engine(LonelyStorage()) as it:
        await it.must(set_(X, 1, blind=True))
        fold = WriterState(
            SPACE, HeadCache(0).share(), settings=COLD, scan_facts_max=10, is_unwritten=lambda _: False
        )
        proposal = it.propose(set_(X, 2), reads=[read_(X, 2), prefix_("urn:", 2)], session="t")
        needs = Needs([proposal], SPACE)
        view, wanted = fold.view(needs)
        assert wanted.tip
        old = await it.space.in_turn(lambda log: gather(log, wanted, 10))
        fold.learn(view, wanted, old)
        assert fold.version == 2
        accepted: list[Accepted] = []
        it.space.subscribe(accepted.extend)
        await it.space.decide(proposal)
        fold.take(accepted)
        again, wanted = fold.view(needs)
        assert wanted.needs_durable is False
        fold.learn(again, wanted, msgspec.structs.replace(old, tip=Tip(Version(1), Hash(b""), old.tip.time)))
        assert again.entity(MAIN, EntityId(X)).value == 2
        assert again.version == 3
        assert [state.value for state in again.changed_under(MAIN, "urn:", Version(2))] == [2]
        known = again.accepted(proposal.identity)
        assert known is not None
        assert known.version == 3
        fold.drop()
        _, wanted = fold.view(needs)
        assert wanted.tip


async def test_tags_and_branches_are_read_once_and_again_after_a_change() -> None:
    seen: list[str] = []
    async with engine(LonelyStorage(seen.append)) as it:
        tag = TagCreate(name="v1", branch=MAIN, version=Version(1))
        await it.must(set_(X, 1, blind=True))
        seen.clear()
        await it.must(set_(X, 2, blind=True))
        assert "reader" not in seen  # everything was known
        assert code(await it.structure(tag)) == "accepted"
        seen.clear()
        assert code(await it.structure(tag)) == "tag_exists"
        assert seen == ["reader"]
        seen.clear()
        assert code(await it.structure(tag, operation="op2")) == "tag_exists"
        assert seen == ["reader"]  # for the operation id, which is always looked up
        made = BranchCreate(name=BranchName("draft"), parent=MAIN, fork=Version(1))
        assert code(await it.structure(made)) == "accepted"
        assert code(await it.structure(made)) == "branch_exists"
