"""Verify follows the chain, folds everything beside it once more, and keeps its memory bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from appends import append_to
from forging import append, forged
from kept_spaces import LARGE, SMALL, blob_of, fill
from logs import LogMaker
from space import SPACE, patch_, set_
from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import commit_record as commits
from stemmadb.protocol.model.log.commit_record import (
    Arguments,
    BranchDelete,
    Commit,
    Compact,
    Merge,
    TagCreate,
    TagDelete,
)
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.server.maintenance import check_blobs, contents
from stemmadb.server.maintenance.check_heads import LogHeads
from stemmadb.server.maintenance.check_structure import FoldedStructure
from stemmadb.server.maintenance.progress import MaintenanceProgress, quiet
from stemmadb.server.maintenance.verify import verify
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.port import FactPosition, Snapshot, SpaceLog
from stemmadb.server.storage.sqlite import SqliteStorage

STEP = {"op": "increment", "path": "/n", "by": 1}


def empty_log() -> MemoryLog:
    return MemoryStorage().open(SPACE, create=True)


@pytest.mark.rule("FACT-3")
def test_what_was_written_verifies_and_is_counted(log: SpaceLog) -> None:
    told: list[MaintenanceProgress] = []
    done = verify(log, on_progress=told.append)
    with log.reader() as reader:
        tip = reader.tip()
    assert (done.space, done.version, done.hash) == (SPACE, tip.version, tip.hash)
    assert (done.facts, done.snapshots, done.blobs) == (22, 1, 2)
    last = {progress.stage: progress for progress in told}
    assert last["walking the chain"] == MaintenanceProgress("walking the chain", 23, 23)
    assert last["reading the facts of each entity"].done == 22


@pytest.mark.rule("FACT-3")
def test_an_empty_space_verifies() -> None:
    log = empty_log()
    assert (verify(log).version, verify(log).hash) == (0, commits.genesis(SPACE))


@pytest.mark.rule("FACT-2")
def test_it_verifies_with_no_more_than_one_head_in_memory(log: SpaceLog) -> None:
    assert verify(log, heads_max=1) == verify(log)


@pytest.mark.rule("FACT-2")
def test_heads_keep_a_bounded_number_and_ask_the_log_for_the_others() -> None:
    asked: list[str] = []

    def find(id_: EntityId, spans: object, before: FactPosition) -> Fact | None:
        asked.append(id_)
        return None

    heads = LogHeads(find, heads_max=2)
    for id_ in ("urn:1", "urn:2", "urn:1", "urn:3", "urn:1", "urn:2"):
        heads.head(MAIN, EntityId(id_))
    assert asked == ["urn:1", "urn:2", "urn:3", "urn:2"]


@pytest.mark.rule("BRANCH-1")
def test_heads_know_which_branches_are_there() -> None:
    heads = LogHeads(lambda *_: None)
    draft, id_ = BranchName("draft"), EntityId("urn:1")
    assert heads.head(draft, id_) is None
    assert not heads.fork(draft, BranchName("nowhere"), Version(0))
    assert heads.fork(draft, MAIN, Version(0))
    assert not heads.fork(draft, MAIN, Version(0))
    assert heads.head(draft, id_) is not None
    assert not heads.close(MAIN)
    assert not heads.close(BranchName("nowhere"))
    assert heads.close(draft)
    assert not heads.close(draft)
    assert heads.head(draft, id_) is None


@pytest.mark.rule("COMMIT-8")
@pytest.mark.parametrize("count", [contents.FACTS_PAGE - 1, contents.FACTS_PAGE, 2 * contents.FACTS_PAGE + 1])
def test_an_entity_with_more_facts_than_a_page_is_read_to_its_end(count: int) -> None:
    maker, log = LogMaker(), empty_log()
    entries = [maker.commit(set_("urn:a", {"n": 0}, blind=True))]
    entries += [maker.commit(patch_("urn:a", STEP, blind=True)) for _ in range(count - 1)]
    append_to(log, Version(0), entries)
    assert verify(log).facts == count
    last = entries[-1].facts[0]
    log.store_snapshots([Snapshot(MAIN, last.id, FactPosition(last.version, 0), encode({"n": count}))])
    with pytest.raises(BrokenChain, match="the snapshot is not the value"):
        verify(log)


@pytest.mark.rule("SNAP-1")
def test_a_snapshot_that_is_not_the_fold_is_found(log: SpaceLog) -> None:
    with log.reader() as reader:
        fact = reader.facts_of(EntityId("urn:a"))[-1]
    log.store_snapshots([Snapshot(fact.branch, fact.id, FactPosition(fact.version, fact.index), encode({"n": 99}))])
    with pytest.raises(BrokenChain, match="the snapshot is not the value"):
        verify(log)


@pytest.mark.rule("SNAP-1")
def test_a_snapshot_of_what_is_gone_is_found(log: SpaceLog) -> None:
    log.store_snapshots([Snapshot(MAIN, EntityId("urn:secret"), FactPosition(Version(2), 0), encode("anything"))])
    with pytest.raises(BrokenChain, match="no value to take one of"):
        verify(log)


@pytest.mark.rule("SNAP-1")
def test_snapshots_on_every_branch_and_fork_are_compared_with_the_fold() -> None:
    maker, log = LogMaker(), empty_log()
    entries = [maker.commit(set_("urn:a", {"n": 0}, blind=True))]
    snapshots = []
    for name, parent, fork in (
        ("b1", "main", 1),
        ("b2", "b1", 3),
        ("b3", "b1", 4),
        ("b4", "main", 2),
        ("b5", "b4", 1),
    ):
        entries.append(maker.create_branch(name, parent, fork) if fork < maker.version else maker.create_branch(name))
        for branch in ("main", name):
            entries.append(
                maker.commit(patch_("urn:a", STEP, blind=True), patch_("urn:a", STEP, blind=True), branch=branch)
            )
            snapshots.append(maker.snapshot(entries[-1].facts[-1]))
    append_to(log, Version(0), entries, [one for one in snapshots if one is not None])
    assert verify(log).snapshots == 10


@pytest.mark.rule("BRANCH-2")
def test_a_branch_of_a_branch_that_never_wrote_the_entity_sees_it_as_of_the_first_fork() -> None:
    maker, log = LogMaker(), empty_log()
    entries = [
        maker.commit(set_("urn:a", {"n": 0}, blind=True)),
        maker.create_branch("quiet", "main", 1),
        maker.commit(patch_("urn:a", STEP, blind=True)),
        maker.create_branch("leaf", "quiet", 3),
        maker.commit(patch_("urn:a", STEP, STEP, blind=True), branch="leaf"),
    ]
    snapshot = maker.snapshot(entries[-1].facts[0])
    assert snapshot is not None
    assert snapshot.body == encode({"n": 2})
    append_to(log, Version(0), entries, [snapshot])
    assert verify(log).snapshots == 1


@pytest.mark.rule("COMPACT-1")
def test_a_later_compaction_with_a_lower_floor_leaves_the_floor_where_it_is() -> None:
    maker, log = LogMaker(), empty_log()
    entries = [maker.commit(set_("urn:a", number, blind=True)) for number in range(3)]
    for entry in (*entries, maker.compact(3), maker.compact(1)):
        append(log, entry)
    verify(log)
    with log.reader() as reader:
        assert reader.floor() == 3


@pytest.mark.rule("BLOB-1")
def test_a_blob_whose_bytes_do_not_give_its_name_is_found() -> None:
    for data in (SMALL[:-1], b"x" + SMALL[1:]):
        log = empty_log()
        log.put_blob(blob_of(SMALL), data)
        with pytest.raises(BrokenChain, match="do not give its name"):
            verify(log)
    log = empty_log()
    log.put_blob(msgspec.structs.replace(blob_of(SMALL), size=1), SMALL)
    with pytest.raises(BrokenChain, match="its size"):
        verify(log)


@pytest.mark.rule("BLOB-1")
def test_a_blob_in_a_file_needs_a_place_for_files() -> None:
    log = empty_log()
    log.put_blob(blob_of(SMALL, in_file=True), None)
    with pytest.raises(BrokenChain, match="no place for files"):
        verify(log)


@pytest.mark.rule("FACT-1")
@pytest.mark.parametrize(
    ("bodies", "why"),
    [
        ((("set", "urn:x", b"\xc1"),), "the stored bytes are damaged"),
        ((("set", "urn:x", encode(1)), ("patch", "urn:x", encode([STEP]))), "cannot be replayed"),
        ((("set", "urn:x", encode(1)), ("patch", "urn:x", encode("nothing"))), "cannot be replayed"),
        ((("set", "urn:x", encode(1)), ("checkpoint", "urn:x", encode(2))), "another value than the facts before"),
        ((("set", "urn:x", encode(1)), ("checkpoint", "urn:x", encode(True))), "another value than the facts before"),
    ],
)
def test_a_body_that_does_not_hold_is_found_although_its_hash_does(
    bodies: tuple[tuple[str, str, bytes], ...], why: str
) -> None:
    log = empty_log()
    append(log, forged(log, bodies=bodies))
    with pytest.raises(BrokenChain, match=why) as found:
        verify(log)
    assert found.value.facts["version"] == 1
    assert found.value.facts["place"] == f"fact {len(bodies) - 1} (urn:x)"


@pytest.mark.rule("FACT-1")
def test_a_checkpoint_may_state_the_value_in_another_form() -> None:
    log = empty_log()
    append(log, forged(log, bodies=(("set", "urn:x", encode(1)), ("checkpoint", "urn:x", encode(1.0)))))
    assert verify(log).facts == 2


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"details": Compact(floor=Version(0)), "branch": None, "is_local": True}, "an operation id"),
        ({"is_local": False}, "an operation id"),
        ({"branch": None}, "not made on no branch"),
        ({"details": Compact(floor=Version(0))}, "not made on a branch"),
        ({"branch": "nowhere"}, "is not there, or was deleted"),
        ({"details": Compact(floor=Version(2)), "branch": None}, "not before it"),
        ({"details": Compact(floor=Version(-1)), "branch": None}, "not before it"),
        ({"details": TagDelete(name="t"), "branch": None}, "tag 't' is not there"),
        ({"details": TagCreate(name="t", branch=BranchName("b"), version=Version(0)), "branch": None}, "'b'"),
        (
            {"details": Merge(source=BranchName("b"), source_version=Version(0), target_version=Version(0))},
            "names the branch 'b'",
        ),
        (
            {"details": Merge(source=MAIN, source_version=Version(0), target_version=Version(9))},
            "not before it",
        ),
        (
            {"details": TagCreate(name="t", branch=MAIN, version=Version(0)), "branch": None, "bodies": True},
            "writes no facts",
        ),
    ],
)
def test_a_record_that_admission_would_never_make_is_found(how: dict[str, Any], why: str) -> None:
    """Asked of the structure alone: not every backend would take such a record."""
    log = empty_log()
    bodies = (("set", "urn:x", encode(1)),) if how.get("bodies") else ()
    entry = forged(log, **(how | {"bodies": bodies}))
    with pytest.raises(BrokenChain, match=why):
        FoldedStructure().take(entry.commit, entry.facts)


@pytest.mark.rule("FACT-3")
def test_a_tag_made_twice_and_a_write_on_a_deleted_branch_are_found() -> None:
    maker = LogMaker()
    made = FoldedStructure()
    for entry in (maker.commit(set_("urn:a", 1, blind=True)), maker.create_tag("t"), maker.create_branch("b")):
        made.take(entry.commit, entry.facts)
    again = msgspec.structs.replace(made.tags["t"], version=Version(1))
    twice = _with_details(maker, TagCreate(name="t", branch=MAIN, version=again.version))
    with pytest.raises(BrokenChain, match="exists already"):
        made.take(twice, ())
    made.take(_with_details(maker, BranchDelete(name=BranchName("b"))), ())
    late = _with_details(maker, Merge(source=MAIN, source_version=Version(1), target_version=Version(1)), "b")
    with pytest.raises(BrokenChain, match="deleted before"):
        made.take(late, ())


def _with_details(maker: LogMaker, details: Arguments, branch: str | None = None) -> Commit:
    """Another record than the last, with these arguments."""
    return msgspec.structs.replace(
        maker.commits[-1],
        version=Version(maker.version + 1),
        arguments=encode(details),
        branch=None if branch is None else BranchName(branch),
    )


class Lying:
    """A log whose answers beside the chain are wrong in one way."""

    def __init__(self, log: SpaceLog, **answers: Any) -> None:
        self._log = log
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        return self._answers[name] if name in self._answers else getattr(self._log, name)

    def reader(self) -> Any:
        return _Within(self._log.reader(), self._answers)


class _Within:
    def __init__(self, reader: Any, answers: dict[str, Any]) -> None:
        self._reader, self._answers = reader, answers

    def __enter__(self) -> Any:
        return Lying(self._reader.__enter__(), **self._answers)

    def __exit__(self, *error: Any) -> Any:
        return self._reader.__exit__(*error)


def raising(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.rule("FACT-3", "STORE-3")
@pytest.mark.parametrize(
    ("answers", "place"),
    [
        ({"branches": list}, "branch draft"),
        ({"branch": lambda _: None}, "branch main"),
        ({"tags": list}, "tag v1"),
        ({"floor": lambda: Version(3)}, "floor"),
        ({"last_write": lambda *_: Version(0)}, "commit"),
        ({"ids": lambda *_: []}, "entities"),
        (
            {"snapshots": lambda: iter([Snapshot(MAIN, EntityId("urn:q"), FactPosition(Version(3), 7), b"\xc0")])},
            "snapshot 7",
        ),
        ({"history": lambda: iter([])}, "commit"),
        ({"history": raising(KeyError("a branch"))}, "file"),
        ({"blobs": raising(RuntimeError())}, "file"),
    ],
)
def test_an_answer_that_does_not_follow_from_the_chain_is_found(answers: dict[str, Any], place: str) -> None:
    log = empty_log()
    fill(log)
    with pytest.raises(BrokenChain) as found:
        verify(Lying(log, **answers))
    assert found.value.facts["place"] == place


@pytest.mark.rule("FACT-3")
def test_the_last_write_of_a_branch_must_be_the_one_at_the_end_too() -> None:
    log = empty_log()
    fill(log)
    with log.reader() as reader:
        honest = reader.last_write
        wrong = lambda name, upto: Version(1) if upto == 23 else honest(name, upto)  # noqa: E731
        with pytest.raises(BrokenChain, match="its last write"):
            verify(Lying(log, last_write=wrong))


@pytest.mark.rule("BLOB-1")
def test_a_blob_without_its_bytes_is_found() -> None:
    log = empty_log()
    log.put_blob(blob_of(SMALL), SMALL)
    with log.reader() as reader, pytest.raises(BrokenChain, match="not there"):
        check_blobs.check(log, Lying(reader, blob_data=lambda _: None), quiet, None)  # type: ignore[arg-type]
    with log.reader() as reader, pytest.raises(check_blobs.BlobMissing):
        list(check_blobs.read(Lying(reader, blob_data=lambda _: None), None, blob_of(SMALL)))  # type: ignore[arg-type]


@pytest.mark.rule("BLOB-2")
def test_a_blob_that_is_removed_while_verify_looks_is_not_missing(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path)
    log = storage.open(SPACE, create=True)
    fill(log)

    def tell(progress: MaintenanceProgress) -> None:
        if progress.stage == "walking the chain":
            log.drop_blobs([blob_of(LARGE).hash])
            (log.directory / "blobs" / reference.write(blob_of(LARGE).hash)).unlink(missing_ok=True)

    reading = SqliteStorage(tmp_path, read_only=True)
    verify(reading.open(SPACE), on_progress=tell)
    reading.close()
    storage.close()
