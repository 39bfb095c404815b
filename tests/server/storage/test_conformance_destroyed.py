"""Every backend: what an entry destroys is gone with it, and what proves it was there stays (ERASE-1, COMPACT-1)."""

from __future__ import annotations

import pytest

from appends import append_to
from backends import Backend
from logs import LogMaker, place_of
from space import SPACE, patch_, set_
from stemmadb.protocol.errors import Compacted
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.facts import NO_BODY
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Hash, TimeMs, Version
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.storage.port import LogMoved, LogReader, Snapshot, SpaceLog, StoredBlob
from stemmadb.server.storage.postgres import PostgresStorage

X, Y = EntityId("urn:x"), EntityId("urn:y")
UP = {"op": "increment", "path": "/n", "by": 1}


def filled(log: SpaceLog) -> LogMaker:
    """Two entities, each set and patched on main, and on a branch; the first commit has a note."""
    maker = LogMaker()
    first = maker.commit(set_(X, {"n": 0}, blind=True), set_(Y, {"n": 0}, blind=True), note=b"\xa3why")
    entries = [
        first,
        maker.commit(patch_(X, UP, blind=True), patch_(Y, UP, blind=True)),
        maker.create_branch("draft"),
    ]
    append_to(log, Version(0), [*entries, maker.commit(patch_(X, UP, blind=True), branch="draft")])
    return maker


def snapshots_of(maker: LogMaker) -> list[Snapshot]:
    return [taken for fact in maker.facts if (taken := maker.snapshot(fact)) is not None]


def value_of(reader: LogReader, spans: tuple[Span, ...], id_: EntityId) -> object:
    return states.load(reader, spans, [id_])[id_].value


@pytest.mark.rule("ERASE-1", "FACT-2")
def test_a_destroyed_body_goes_with_its_salt_and_leaves_digest_and_hash(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    before = list(maker.facts)
    append_to(log, Version(4), [maker.erase(X, [1, 4])])
    with backend.reopen().reader() as reader:
        facts = [fact for _, facts in reader.history() for fact in facts]
        assert facts == maker.facts
        gone = [fact for fact in facts if fact.is_gone]
        assert [(fact.id, fact.version, fact.index) for fact in gone] == [(X, 1, 0), (X, 4, 0)]
        assert all(fact.salt is None and fact.digest != NO_BODY for fact in gone)
        assert [(fact.digest, fact.hash, fact.parent) for fact in facts[:5]] == [
            (fact.digest, fact.hash, fact.parent) for fact in before
        ]
        assert list(chain.verify(SPACE, reader.history()))[-1].version == 5


@pytest.mark.rule("ERASE-1")
def test_a_destroyed_note_goes_with_its_salt_and_leaves_its_digest(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    (before, *_) = maker.commits
    append_to(log, Version(4), [maker.erase(X, [1])])
    with backend.reopen().reader() as reader:
        record = reader.commits([Version(1)])[Version(1)]
    assert (record.note, record.note_salt, record.note_digest) == (None, None, before.note_digest)
    assert record == maker.commits[0]
    assert record.hash == before.hash


@pytest.mark.rule("ERASE-1")
def test_what_is_replayed_from_a_destroyed_body_is_erased_until_the_next_set(log: SpaceLog) -> None:
    maker = filled(log)
    log.store_snapshots(snapshots_of(maker))
    append_to(log, Version(4), [maker.erase(X, [1], survivor={"n": 7})])
    append_to(log, Version(5), [maker.commit(patch_(X, UP, blind=True))])
    with log.reader() as reader:
        assert value_of(reader, maker.spans(version=1), X) is Missing.ERASED
        assert value_of(reader, maker.spans(version=2), X) is Missing.ERASED
        assert value_of(reader, maker.spans("draft", 4), X) is Missing.ERASED
        assert value_of(reader, maker.spans(), X) == {"n": 8}
        assert value_of(reader, maker.spans("draft"), X) == {"n": 7}
        assert value_of(reader, maker.spans(version=2), Y) == {"n": 1}


@pytest.mark.rule("ERASE-1", "SNAP-1")
def test_all_snapshots_of_an_erased_entity_go_and_no_others(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    log.store_snapshots(snapshots_of(maker))
    append_to(log, Version(4), [maker.erase(X, [2])])
    with backend.reopen().reader() as reader:
        left = sorted((snapshot.id, snapshot.place.version) for snapshot in reader.snapshots())
    assert left == [(Y, 1), (Y, 2)]


@pytest.mark.rule("COMPACT-1", "SNAP-1")
def test_snapshots_below_the_floor_go_and_those_at_it_stay(log: SpaceLog) -> None:
    maker = filled(log)
    log.store_snapshots(snapshots_of(maker))
    append_to(log, Version(4), [maker.compact(2)])
    with log.reader() as reader:
        left = sorted((snapshot.place.version, snapshot.id) for snapshot in reader.snapshots())
    assert left == [(2, X), (2, Y), (4, X)]


@pytest.mark.rule("COMPACT-1", "HISTORY-2")
def test_a_compaction_takes_bodies_below_its_floor_and_what_is_read_above_stays(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    append_to(log, Version(4), [maker.commit(set_(X, {"n": 9}, blind=True)), maker.compact(5)])
    log = backend.reopen()
    with log.reader() as reader:
        facts = [fact for _, facts in reader.history() for fact in facts]
        assert facts == maker.facts
        # The branch still sees the first facts of X, and both see those of Y.
        assert [fact.is_gone for fact in facts] == [False, False, False, False, False, False]
        assert reader.floor() == 5
        with pytest.raises(Compacted):
            moments.resolve(reader, ReadMoment(version=Version(4)))
    append_to(log, Version(6), [maker.commit(set_(X, {"n": 1}, blind=True), branch="draft"), maker.compact(7)])
    with log.reader() as reader:
        gone = [place_of(fact) for _, facts in reader.history() for fact in facts if fact.is_gone]
        assert [(place.version, place.index) for place in gone] == [(1, 0), (2, 0), (4, 0)]
        assert list(chain.verify(SPACE, reader.history()))[-1].version == 8
        assert value_of(reader, maker.spans(), X) == {"n": 9}
        assert value_of(reader, maker.spans("draft"), Y) == {"n": 1}


@pytest.mark.rule("ERASE-1", "BLOB-2")
def test_named_blobs_go_in_the_same_transaction(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    blobs = [StoredBlob(Hash(bytes([n]) * 32), 1, "text/plain", TimeMs(5), in_file=False) for n in (1, 2)]
    for blob in blobs:
        log.put_blob(blob, b"x")
    erasing = maker.erase(X, [2], blobs=[blobs[0].hash, Hash(b"9" * 32)])
    with pytest.raises(LogMoved):
        append_to(log, Version(3), [erasing])
    with log.reader() as reader:
        assert len(list(reader.blobs())) == 2
        assert not any(fact.is_gone for _, facts in reader.history() for fact in facts)
    append_to(log, Version(4), [erasing])
    with backend.reopen().reader() as reader:
        assert list(reader.blobs()) == blobs[1:]


@pytest.mark.rule("ERASE-1")
def test_a_body_can_be_destroyed_in_the_batch_that_brings_it_and_a_second_time(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    entries = [maker.commit(set_(X, "soon gone", blind=True)), maker.erase(X, [5])]
    append_to(log, Version(4), [*entries, maker.erase(X, [1, 5, 6])])
    with backend.reopen().reader() as reader:
        assert [fact for _, facts in reader.history() for fact in facts] == maker.facts
        assert list(chain.verify(SPACE, reader.history()))[-1].version == 7
        assert value_of(reader, maker.spans(version=5), X) is Missing.ERASED


@pytest.mark.rule("ERASE-1")
def test_a_scrub_is_owed_after_something_was_destroyed_also_by_a_log_that_was_closed_before(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    owed = [log.owes_scrub]
    append_to(log, Version(4), [maker.erase(X, [2])])
    owed.append(log.owes_scrub)
    log = backend.reopen()
    owed.append(log.owes_scrub)
    log.scrub()
    owed.append(log.owes_scrub)
    log = backend.reopen()
    append_to(log, Version(5), [maker.commit(set_(Y, 1, blind=True))])
    owed.append(log.owes_scrub)
    if isinstance(backend.storage, PostgresStorage):  # files are the database's, and its operator scrubs
        assert (owed, backend.storage.owing_scrub()) == ([False] * 5, [SPACE])
    else:
        assert owed == [False, True, True, False, False]
    with log.reader() as reader:
        assert [fact for _, facts in reader.history() for fact in facts] == maker.facts


def test_facts_are_appended_on_what_is_left_after_an_erasure(backend: Backend) -> None:
    log = backend.open()
    maker = filled(log)
    append_to(log, Version(4), [maker.erase(X, [1, 2, 4], survivor={"n": 0})])
    log.scrub()
    log = backend.reopen()
    append_to(log, Version(5), [maker.commit(patch_(X, UP, blind=True), branch=on) for on in (MAIN, "draft")])
    with log.reader() as reader:
        assert list(chain.verify(SPACE, reader.history()))[-1].version == 7
        assert value_of(reader, maker.spans("draft"), X) == {"n": 1}
