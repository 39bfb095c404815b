"""Every backend: what an entity is replayed from, against a fold of everything there is (COMMIT-8, HISTORY-3)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from answers import states_of
from appends import append_to
from logs import LogMaker, place_of
from random_logs import IDS, RandomLog, readable
from snapshots import drop_snapshots
from space import delete_, patch_, set_
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.engine.base import states
from stemmadb.server.storage.port import FactPosition, LogReader, Recorded, Replay, SpaceLog

X = EntityId("urn:x")
ALL = list(map(EntityId, IDS))
UP = {"op": "increment", "path": "/n", "by": 1}


def recorded(fact: Fact) -> Recorded:
    return Recorded(fact.version, fact.index, fact.branch, fact.id, fact.kind, fact.hash, fact.body)


def without_bodies(facts: Sequence[Recorded]) -> list[Recorded]:
    return [msgspec.structs.replace(fact, body=None) for fact in facts]


def beginning(found: Replay) -> FactPosition:
    """Where the fold begins: what lies before it is there for the changes it made alone."""
    places = [FactPosition(fact.version, fact.index) for fact in found.facts if replay.begins_here(fact)]
    snapshots = [] if found.snapshot is None else [found.snapshot.place]
    return max([*places, *snapshots], default=FactPosition(Version(0), 0))


def check_replay(found: Replay, facts: Sequence[Fact], since: Version | None = None) -> None:
    """What the port says of a replay, given all facts of the lineage."""
    got = found.facts
    right = tuple(map(recorded, facts))[len(facts) - len(got) :]
    assert without_bodies(got) == without_bodies(right), "the newest facts, none missing between"
    start = beginning(found)
    for fact, stored in zip(got, right, strict=True):
        if fact.kind == "patch" or FactPosition(fact.version, fact.index) >= start:
            assert fact.body == stored.body
    assert any(fact.kind != "checkpoint" for fact in got)
    places = [FactPosition(fact.version, fact.index) for fact in got]
    is_whole = any(map(replay.begins_here, got)) or (found.snapshot is not None and found.snapshot.place in places)
    assert is_whole or len(got) == len(facts)
    if since is not None:
        assert {place_of(fact) for fact in facts if fact.version > since} <= set(places)


def check_states(reader: LogReader, maker: LogMaker, spans: tuple[Span, ...]) -> None:
    """Every entity of a lineage has the value, the version, the hash and the place that a naive fold gives."""
    loaded = states.load(reader, spans, ALL)
    for id_ in ALL:
        facts = maker.seen(spans, id_)
        if not facts:
            assert id_ not in loaded
            continue
        found = loaded[id_]
        assert found.value == replay.fold(Missing.ABSENT, facts)
        assert found.version == max(fact.version for fact in facts if fact.kind != "checkpoint")
        assert (found.id, found.hash, found.place) == (id_, facts[-1].hash, place_of(facts[-1]))


@pytest.mark.rule("COMMIT-8", "HISTORY-3", "BRANCH-2")
@pytest.mark.parametrize("seed", range(50))
def test_every_state_that_can_be_read_is_the_fold_of_what_is_seen(log: SpaceLog, seed: int) -> None:
    maker = RandomLog(seed, log).run(12)
    with log.reader() as reader:
        for moment in readable(maker):
            check_states(reader, maker, maker.spans(*moment))


@pytest.mark.rule("HISTORY-3")
@pytest.mark.parametrize("seed", range(60, 75))
def test_a_replay_holds_what_the_port_says_of_it(log: SpaceLog, seed: int) -> None:
    making = RandomLog(seed, log)
    maker = making.run(12)
    with log.reader() as reader:
        for name, version in readable(maker):
            spans = maker.spans(name, version)
            since = {id_: Version(making.random.randint(0, maker.version)) for id_ in making.random.sample(ALL, 4)}
            for wanted in (None, since):
                for id_, found in reader.replays(spans, ALL, wanted).items():
                    check_replay(found, maker.seen(spans, id_), (wanted or {}).get(id_))


@pytest.mark.rule("SNAP-1")
@pytest.mark.parametrize("seed", range(80, 92))
def test_dropping_all_snapshots_changes_no_state(log: SpaceLog, seed: int) -> None:
    making = RandomLog(seed, log)
    for _ in range(12):
        making.append()
        if making.random.random() < 0.2:
            drop_snapshots(log)
    maker = making.maker
    log.store_snapshots(making.snapshots(maker.facts))
    lineages = [maker.spans(*moment) for moment in readable(maker)]
    with log.reader() as reader:
        before = [states_of(reader, spans) for spans in lineages]
    drop_snapshots(log)
    with log.reader() as reader:
        assert list(reader.snapshots()) == []
        assert [states_of(reader, spans) for spans in lineages] == before


@pytest.mark.rule("SNAP-1")
@pytest.mark.parametrize("seed", range(100, 106))
def test_a_snapshot_of_every_fact_changes_no_state(log: SpaceLog, seed: int) -> None:
    maker = RandomLog(seed, log).run(12)
    log.store_snapshots([taken for fact in maker.facts if (taken := maker.snapshot(fact)) is not None])
    with log.reader() as reader:
        for moment in readable(maker):
            check_states(reader, maker, maker.spans(*moment))


# ------------------------------------------------------------ how much is read


def patched(maker: LogMaker, log: SpaceLog, count: int) -> None:
    """A set and then patches, one for each version."""
    entries = [maker.commit(set_(X, {"n": 0}, blind=True))]
    append_to(log, Version(0), entries + [maker.commit(patch_(X, UP, blind=True)) for _ in range(count)])


def versions(found: Replay) -> list[int]:
    return [fact.version for fact in found.facts]


@pytest.mark.rule("HISTORY-3")
def test_a_replay_begins_with_the_last_whole_value(log: SpaceLog) -> None:
    maker = LogMaker()
    patched(maker, log, 3)
    append_to(log, Version(4), [maker.commit(set_(X, {"n": 9}, blind=True)), maker.commit(patch_(X, UP, blind=True))])
    append_to(log, Version(6), [maker.commit(delete_(X, blind=True))])
    with log.reader() as reader:
        assert [versions(reader.replays(maker.spans(version=at), [X])[X]) for at in range(1, 8)] == [
            [1],
            [1, 2],
            [1, 2, 3],
            [1, 2, 3, 4],
            [5],
            [5, 6],
            [7],
        ]


@pytest.mark.rule("HISTORY-3", "SNAP-1")
def test_a_replay_begins_with_the_fact_of_the_last_snapshot(log: SpaceLog) -> None:
    maker = LogMaker()
    patched(maker, log, 6)
    taken = [maker.snapshot(maker.facts[index]) for index in (1, 3)]
    log.store_snapshots([one for one in taken if one is not None])
    with log.reader() as reader:
        found = {at: reader.replays(maker.spans(version=at), [X])[X] for at in (1, 2, 3, 4, 7)}
    assert {at: versions(one) for at, one in found.items()} == {1: [1], 2: [2], 3: [2, 3], 4: [4], 7: [4, 5, 6, 7]}
    assert found[1].snapshot is None
    assert (found[3].snapshot, found[7].snapshot) == (taken[0], taken[1])


@pytest.mark.rule("HISTORY-3", "SNAP-1")
def test_a_snapshot_before_a_whole_value_is_not_used(log: SpaceLog) -> None:
    maker = LogMaker()
    patched(maker, log, 2)
    append_to(log, Version(3), [maker.commit(set_(X, {"n": 9}, blind=True))])
    taken = maker.snapshot(maker.facts[1])
    assert taken is not None
    log.store_snapshots([taken])
    with log.reader() as reader:
        assert versions(reader.replays(maker.spans(), [X])[X]) == [4]


@pytest.mark.rule("HISTORY-3")
def test_a_replay_goes_through_the_fork_point_and_a_snapshot_of_the_parent_serves_the_branch(log: SpaceLog) -> None:
    maker = LogMaker()
    patched(maker, log, 4)
    entries = [maker.create_branch("draft", "main", 3), maker.commit(patch_(X, UP, blind=True), branch="draft")]
    append_to(log, Version(5), entries)
    with log.reader() as reader:
        assert versions(reader.replays(maker.spans("draft"), [X])[X]) == [1, 2, 3, 7]
    taken = [maker.snapshot(maker.facts[index]) for index in (2, 4)]
    log.store_snapshots([one for one in taken if one is not None])
    with log.reader() as reader:
        found = reader.replays(maker.spans("draft"), [X])[X]
        assert (versions(found), found.snapshot) == ([3, 7], taken[0])
        assert versions(reader.replays(maker.spans(), [X])[X]) == [5]


@pytest.mark.rule("HISTORY-3")
def test_since_brings_every_later_fact_and_the_replay_still_begins_where_it_did(log: SpaceLog) -> None:
    maker = LogMaker()
    patched(maker, log, 4)
    append_to(log, Version(5), [maker.commit(set_(X, {"n": 9}, blind=True)), maker.commit(patch_(X, UP, blind=True))])
    with log.reader() as reader:
        for since, expected in ((0, [1, 2, 3, 4, 5, 6, 7]), (3, [4, 5, 6, 7]), (5, [6, 7]), (6, [6, 7]), (9, [6, 7])):
            found = reader.replays(maker.spans(), [X], {X: Version(since)})[X]
            assert (versions(found), states.fold(found).value) == (expected, {"n": 10})


@pytest.mark.rule("COMPACT-1", "HISTORY-3")
def test_a_checkpoint_begins_a_replay_which_has_the_last_change_before_it(log: SpaceLog) -> None:
    maker = LogMaker()
    patched(maker, log, 3)
    append_to(
        log, Version(4), [maker.compact(4, checkpoints=[("main", X)]), maker.compact(5, checkpoints=[("main", X)])]
    )
    with log.reader() as reader:
        found = reader.replays(maker.spans(), [X])[X]
        assert versions(found) == [4, 5, 6]
        assert [fact.kind for fact in found.facts] == ["patch", "checkpoint", "checkpoint"]
        state = states.fold(found)
    assert (state.value, state.version, state.place, state.patches) == ({"n": 3}, 4, FactPosition(Version(6), 0), 0)
    append_to(log, Version(6), [maker.commit(patch_(X, UP, blind=True))])
    with log.reader() as reader:
        found = reader.replays(maker.spans(), [X])[X]
    assert versions(found) == [6, 7]
    assert states.fold(found).value == {"n": 4}


@pytest.mark.rule("COMMIT-6")
def test_facts_of_one_commit_are_replayed_in_order(log: SpaceLog) -> None:
    maker = LogMaker()
    entry = maker.commit(set_(X, {"n": 5}, blind=True), patch_(X, UP), delete_(X), set_(X, {"n": 0}), patch_(X, UP))
    append_to(log, Version(0), [entry])
    with log.reader() as reader:
        found = reader.replays(maker.spans(), [X])[X]
    assert [fact.index for fact in found.facts] == [3, 4]
    assert states.fold(found).value == {"n": 1}


def test_only_entities_with_a_fact_in_the_spans_are_replayed_and_each_once(log: SpaceLog) -> None:
    maker = LogMaker()
    patched(maker, log, 1)
    with log.reader() as reader:
        assert list(reader.replays(maker.spans(), [X, EntityId("urn:y"), X])) == [X]
        assert reader.replays(maker.spans(version=0), [X]) == {}
        assert reader.replays((), [X]) == reader.replays(maker.spans(), []) == {}


def test_more_entities_than_a_statement_has_room_for_are_replayed_at_once(log: SpaceLog) -> None:
    maker = LogMaker()
    ids = [EntityId(f"urn:many:{number}") for number in range(3_000)]
    batches = [ids[start : start + 1_000] for start in range(0, 3_000, 1_000)]
    append_to(log, Version(0), [maker.commit(*[set_(id_, id_, blind=True) for id_ in batch]) for batch in batches])
    with log.reader() as reader:
        loaded = states.load(reader, maker.spans(), ids)
    assert {id_: state.value for id_, state in loaded.items()} == {id_: id_ for id_ in ids}


@pytest.mark.rule("QUERY-6")
@pytest.mark.parametrize("seed", range(110, 130))
def test_a_bounded_reading_brings_a_part_of_what_an_unbounded_one_does(log: SpaceLog, seed: int) -> None:
    making = RandomLog(seed, log)
    maker = making.run(12)
    with log.reader() as reader:
        for name, version in readable(maker):
            spans = maker.spans(name, version)
            asked = making.random.sample(ALL, len(ALL))
            whole = reader.replays(spans, asked)
            for bytes_max in (0, 1, 40, 200, 1_000_000):
                found, unread = reader.replays_upto(spans, asked, bytes_max)
                assert {**found} == {id_: one for id_, one in whole.items() if id_ not in unread}
                assert list(unread) == [id_ for id_ in asked if id_ in unread]
                assert asked[0] not in unread, "it goes on"
                sizes = sorted(one.weight for one in found.values())
                assert sum(sizes[:-2]) <= bytes_max
                left = sum(whole[id_].weight for id_ in unread if id_ in whole)
                assert not unread or sum(sizes) + left >= bytes_max, "it stops for a reason"
            assert reader.replays_upto(spans, asked, 1_000_000) == (whole, ())
    assert reader_of_nothing(log, maker)


def reader_of_nothing(log: SpaceLog, maker: LogMaker) -> bool:
    with log.reader() as reader:
        return reader.replays_upto(maker.spans(), [], 1) == reader.replays_upto((), [X], 1) == ({}, ())
