"""Erasing on a real space: what is gone, what survives, what is refused, and what comes between."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from asking import Overtaken, asked, tip_of
from destroying import all_bytes, bytes_of_files, verified
from engines import Engine, engine
from space import ALICE, BOB, SPACE, delete_, patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Erase
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.plan import erasure, merge
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.engine.plan.planned_write import ATTEMPTS_MAX
from stemmadb.server.engine.read import entities
from stemmadb.server.storage.blob_directory import blob_path
from stemmadb.server.storage.port import LogReader, SpaceLog, StoredBlob
from stemmadb.server.storage.sqlite import SqliteStorage

X = EntityId("urn:x")
SECRET = {"name": "the secret"}
NO_SURVIVORS: dict[BranchName, bytes | None] = {}
DRAFT = BranchName("draft")


async def is_erased(it: Engine, branch: str, version: int) -> bool:
    moment = ReadMoment(BranchName(branch), Version(version))
    try:
        await it.space.read(lambda reader: entities.get(reader, X, moment))
    except errors.Erased:
        return True
    return False


async def fork(it: Engine, name: str = "draft", at: int | None = None) -> None:
    version = it.space.version if at is None else Version(at)
    await it.structure(BranchCreate(name=BranchName(name), parent=MAIN, fork=version))


@pytest.mark.rule("ERASE-1")
async def test_what_was_erased_answers_erased_until_the_erasure_itself_mends_the_heads() -> None:
    async with engine() as it:
        await it.must(set_(X, {"name": "first"}, blind=True))
        secret = await it.must(set_(X, SECRET, blind=True), note=encode({"message": "the secret note"}))
        await fork(it)
        last = await it.must(patch_(X, {"op": "add", "path": "/more", "value": 1}, blind=True))
        done = await erasure.erase(it.space, asked("e"), {X: [secret]}, {MAIN: encode({"name": "(erased)"})})
        assert (done.version, done.erased) == (last + 1, 1)
        assert [await is_erased(it, "main", version) for version in range(2, 7)] == [False, True, True, True, False]
        assert await is_erased(it, "draft", last)
        assert await it.value(X) == {"name": "(erased)"}
        assert await it.value(X, "draft") is None
        assert b"secret" not in await all_bytes(it)
        await verified(it)


@pytest.mark.rule("ERASE-1")
async def test_a_head_that_is_fine_is_not_written() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        await fork(it)
        for branch in ("main", "draft"):
            await it.must(set_(X, {"name": branch}, blind=True), branch=branch)
        done = await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS)
        record = await it.space.read(lambda reader: reader.commits([done.version])[done.version])
        assert record.facts == ()
        assert (record.hash, record.time) == (done.hash, done.time)
        assert record.details == Erase(id=X, versions=(secret,))
        assert await it.value(X) == {"name": "main"}
        assert await it.value(X, "draft") == {"name": "draft"}


@pytest.mark.rule("ERASE-1", "BRANCH-1")
async def test_the_head_of_a_deleted_branch_may_stay_erased() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        await fork(it)
        await it.structure(BranchDelete(name=DRAFT))
        await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS)
        assert await is_erased(it, "draft", it.space.version)
        assert await it.value(X) is None
        await verified(it)


@pytest.mark.rule("ERASE-1")
async def test_a_merge_of_what_was_erased_is_refused_and_leaves_no_copy() -> None:
    async with engine() as it:
        await it.must(set_(X, {"name": "first"}, blind=True))
        await fork(it)
        await it.must(set_(X, SECRET, blind=True), branch="draft")
        secret = it.space.version
        await erasure.erase(it.space, asked("e"), {X: [secret]}, {DRAFT: encode({"name": "clean"})})
        with pytest.raises(errors.Erased):
            await merge.merge(it.space, asked("m"), MergeWanted(source=DRAFT, source_version=secret))
        await merge.merge(it.space, asked("n"), MergeWanted(source=DRAFT))
        assert await it.value(X) == {"name": "clean"}


@pytest.mark.rule("ERASE-1")
async def test_erasing_again_is_fine_also_where_a_branch_was_made_of_what_is_gone() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS)
        await fork(it, at=secret)
        await fork(it, "other", at=secret)
        survivors = {BranchName("other"): encode({"name": "new"})}
        done = await erasure.erase(it.space, asked("again"), {X: [secret]}, survivors)
        assert done.erased == 1
        assert not await is_erased(it, "draft", it.space.version)
        assert await it.value(X, "draft") is None
        assert await it.value(X, "other") == {"name": "new"}
        await verified(it)


@pytest.mark.rule("ERASE-1", "COMMIT-11")
async def test_the_same_erasure_sent_again_gets_the_same_answer_and_writes_nothing() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        survivors = {MAIN: encode({"name": "left"})}
        done = await erasure.erase(it.space, asked("e"), {X: [secret]}, survivors)
        head = await tip_of(it.space)
        assert await erasure.erase(it.space, asked("e"), {X: [secret]}, survivors) == done
        with pytest.raises(errors.IdentityClash):
            await erasure.erase(it.space, asked("e", request="other"), {X: [secret]}, NO_SURVIVORS)
        assert await tip_of(it.space) == head


@pytest.mark.rule("ERASE-1")
async def test_what_cannot_be_erased_is_refused_and_nothing_is_written() -> None:
    async with engine() as it:
        written = await it.must(set_(X, SECRET, blind=True))
        await it.must(set_(X, {"name": "after"}, blind=True))
        head = await tip_of(it.space)
        unknown = Hash(bytes(32))
        cases: list[tuple[type[errors.StemmaError], EntityId, int, dict[BranchName, bytes | None], list[Hash]]] = [
            (errors.NotFound, X, 1, {}, []),
            (errors.NotFound, EntityId("urn:never"), 2, {}, []),
            (errors.FutureVersion, X, 9, {}, []),
            (errors.Malformed, X, written, {MAIN: encode(1)}, []),
            (errors.UnknownBranch, X, written, {BranchName("nowhere"): encode(1)}, []),
            (errors.UnknownBlob, X, written, {}, [unknown]),
            (errors.InvalidValue, X, 3, {MAIN: b"\xc1"}, []),
            (errors.Forbidden, EntityId(SPACE), 1, {}, []),
        ]
        for number, (error, id_, version, survivors, blobs) in enumerate(cases):
            with pytest.raises(error):
                await erasure.erase(it.space, asked(f"e{number}"), {id_: [Version(version)]}, survivors, blobs)
        with pytest.raises(errors.Malformed):
            await erasure.erase(it.space, asked("none"), {X: []}, NO_SURVIVORS)
        assert await tip_of(it.space) == head
        assert b"secret" in await all_bytes(it)


@pytest.mark.rule("ERASE-1", "ACL-1")
async def test_only_an_owner_erases_and_learns_nothing_else() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        for id_, version in ((X, secret), (EntityId("urn:never"), secret), (EntityId(SPACE), 1)):
            with pytest.raises(errors.Forbidden) as told:
                await erasure.erase(it.space, asked("e", author=BOB), {id_: [Version(version)]}, NO_SURVIVORS)
            assert told.value.facts == {"action": "write", "needs": "own"}
        assert await it.value(X) == SECRET


@pytest.mark.rule("ERASE-1")
async def test_more_heads_than_one_write_may_mend_are_refused() -> None:
    async with engine(limits=Limits(bulk_operations_max=2)) as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        await fork(it, "a")
        done = await erasure.erase(it.space, asked("ok"), {X: [secret]}, NO_SURVIVORS)
        assert done.erased == 1
        secret = await it.must(set_(X, SECRET, blind=True))
        await fork(it, "b")
        await fork(it, "c")
        with pytest.raises(errors.LimitExceeded):
            await erasure.erase(it.space, asked("many"), {X: [secret]}, NO_SURVIVORS)


@pytest.mark.rule("ERASE-1", "COMMIT-2")
@pytest.mark.parametrize("branch", ["main", "draft"])
async def test_a_write_that_comes_between_makes_it_plan_again(branch: str) -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        await fork(it)
        await it.must(set_(X, {"name": "draft"}, blind=True), branch="draft")
        times: list[Any] = [None]

        async def meanwhile() -> None:
            if times:
                times.pop()
                await it.must(set_(X, {"name": "between"}, blind=True), branch=branch)

        space = Overtaken(it.space, meanwhile)
        await erasure.erase(space, asked("e"), {X: [secret]}, NO_SURVIVORS)
        assert space.decisions == 2
        assert await it.value(X, branch) == {"name": "between"}
        assert b"secret" not in await all_bytes(it)


@pytest.mark.rule("ERASE-1")
async def test_a_branch_that_is_deleted_meanwhile_is_left_alone() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        await fork(it)

        async def meanwhile() -> None:
            await it.structure(BranchDelete(name=DRAFT))

        space = Overtaken(it.space, meanwhile)
        await erasure.erase(space, asked("e"), {X: [secret]}, NO_SURVIVORS)
        assert space.decisions == 2
        assert await is_erased(it, "draft", it.space.version)


async def test_it_gives_up_after_a_bounded_number_of_attempts() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))

        async def meanwhile() -> None:
            await it.must(set_(X, {"again": it.space.version}, blind=True))

        space = Overtaken(it.space, meanwhile)
        with pytest.raises(errors.MergeBusy):
            await erasure.erase(space, asked("e"), {X: [secret]}, NO_SURVIVORS)
        assert space.decisions == ATTEMPTS_MAX
        assert b"secret" in await all_bytes(it)


@pytest.mark.rule("COMMIT-11")
async def test_an_erasure_that_is_accepted_twice_at_a_time_is_done_once() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))

        async def meanwhile() -> None:
            await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS)

        done = await erasure.erase(Overtaken(it.space, meanwhile), asked("e"), {X: [secret]}, NO_SURVIVORS)
        assert done.version == it.space.version == secret + 1


async def test_what_admission_refuses_is_raised() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))

        async def meanwhile() -> None:
            await it.must(set_(SPACE, {SPACE: "own", ALICE: "read"}, blind=True), author=SPACE, session="first")

        with pytest.raises(errors.Forbidden):
            await erasure.erase(Overtaken(it.space, meanwhile), asked("e"), {X: [secret]}, NO_SURVIVORS)


@pytest.mark.rule("ERASE-1", "BLOB-1")
async def test_named_blobs_go_with_their_rows_and_files_and_half_uploads(tmp_path: Path) -> None:
    large, small = b"large secret " * 10, b"small secret"
    hashes = [Hash(blake3(data).digest()) for data in (large, small)]
    async with engine(SqliteStorage(tmp_path)) as it:

        def keep(log: SpaceLog) -> tuple[Path, Path]:
            assert log.directory is not None
            file, half = (blob_path(log.directory, hashes[0]), log.directory / "uploads" / "x")
            half = half.with_name(file.name)
            for path in (file, half):
                path.parent.mkdir()
                path.write_bytes(large)
            log.put_blob(StoredBlob(hashes[0], len(large), "text/plain", TimeMs(0), in_file=True), None)
            log.put_blob(StoredBlob(hashes[1], len(small), "text/plain", TimeMs(0), in_file=False), small)
            return file, half

        paths = await it.space.in_turn(keep)
        secret = await it.must(set_(X, SECRET, blind=True))
        await it.must(delete_(X, blind=True))
        await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS, hashes)
        assert not any(path.exists() for path in paths)
        assert await it.space.read(lambda reader: list(reader.blobs())) == []
        assert b"secret" not in bytes_of_files(tmp_path)
        await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS, hashes)


@pytest.mark.rule("ERASE-1", "BLOB-2")
@pytest.mark.parametrize("folder", ["blobs", "uploads"])
async def test_a_blob_that_only_a_file_is_left_of_can_be_named(tmp_path: Path, folder: str) -> None:
    """As after an erasure that ended between its write and the removal of the files."""
    data = b"large secret " * 10
    hash_ = Hash(blake3(data).digest())
    async with engine(SqliteStorage(tmp_path)) as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        file = await it.space.in_turn(lambda log: write_file(log, folder, data))
        await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS, [hash_])
        assert not file.exists()
        with pytest.raises(errors.UnknownBlob):
            await erasure.erase(it.space, asked("f"), {X: [secret]}, NO_SURVIVORS, [hash_])


@pytest.mark.rule("ERASE-1", "BLOB-2")
async def test_an_erasure_that_is_asked_again_removes_the_files_it_left(tmp_path: Path) -> None:
    data = b"large secret " * 10
    hash_ = Hash(blake3(data).digest())
    async with engine(SqliteStorage(tmp_path)) as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        await it.space.in_turn(lambda log: write_file(log, "blobs", data))
        done = await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS, [hash_])
        files = [await it.space.in_turn(partial(write_file, folder=at, data=data)) for at in ("blobs", "uploads")]
        assert await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS, [hash_]) == done
        assert not any(file.exists() for file in files)


@pytest.mark.rule("BLOB-2")
async def test_an_erasure_removes_files_that_have_no_row_and_no_others(tmp_path: Path) -> None:
    stray, kept = b"stray" * 10, b"kept" * 10
    async with engine(SqliteStorage(tmp_path)) as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        files = [await it.space.in_turn(partial(write_file, folder="blobs", data=of)) for of in (stray, kept)]
        blob = StoredBlob(Hash(blake3(kept).digest()), len(kept), "text/plain", TimeMs(0), in_file=True)
        await it.space.in_turn(lambda log: log.put_blob(blob, None))
        await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS)
        assert [file.exists() for file in files] == [False, True]


def write_file(log: SpaceLog, folder: str, data: bytes) -> Path:
    """A file that is named as one of a blob is, without a row."""
    assert log.directory is not None
    file = blob_path(log.directory, Hash(blake3(data).digest()))
    file = log.directory / folder / file.name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    return file


@pytest.mark.rule("ERASE-1")
async def test_blobs_in_memory_go_too() -> None:
    data = b"small secret"
    hash_ = Hash(blake3(data).digest())
    async with engine() as it:
        blob = StoredBlob(hash_, len(data), "text/plain", TimeMs(0), in_file=False)
        await it.space.in_turn(lambda log: log.put_blob(blob, data))
        secret = await it.must(set_(X, SECRET, blind=True))
        await erasure.erase(it.space, asked("e"), {X: [secret]}, NO_SURVIVORS, [hash_])

        def ask(reader: LogReader) -> StoredBlob | None:
            return reader.blob(hash_)

        assert await it.space.read(ask) is None


@pytest.mark.rule("ERASE-1")
async def test_a_long_history_is_read_a_few_facts_at_a_time() -> None:
    async with engine() as it:
        first = await it.must(set_(X, SECRET, blind=True))
        for number in range(erasure.FACTS_PAGE + 5):
            await it.must(set_(X, {"n": number}, blind=True))
        last = await it.must(set_(X, SECRET, blind=True))
        done = await erasure.erase(it.space, asked("e"), {X: [first, last]}, NO_SURVIVORS)
        assert done.erased == 2
        assert b"secret" not in await all_bytes(it)


# ---------------------------------------------------------------- many entities


Y = EntityId("urn:y")


@pytest.mark.rule("ERASE-2")
async def test_many_entities_are_erased_by_one_commit_and_one_scrub(tmp_path: Path) -> None:
    async with engine(SqliteStorage(tmp_path)) as it:
        ids = [EntityId(f"urn:many:{number}") for number in range(30)]
        await fork(it)
        targets = {id_: [await it.must(set_(id_, {"name": f"secret {id_}"}, blind=True))] for id_ in ids}
        await it.must(set_(ids[0], {"name": "secret on the draft"}, blind=True), branch="draft")
        targets[ids[0]].append(it.space.version)
        kept = await it.must(set_(X, {"name": "kept"}, blind=True))
        scrubs = await it.space.in_turn(scrubs_counted)
        done = await erasure.erase(it.space, asked("e"), targets, {MAIN: encode("(erased)")})
        assert await it.space.in_turn(lambda _: len(scrubs)) == 1
        assert (done.version, done.erased) == (kept + 1, 31)
        assert await it.value(ids[0]) == "(erased)"
        assert [await it.value(id_) for id_ in ids[1:]] == [None] * 29
        assert await it.value(ids[0], "draft") is None
        assert await it.value(X) == {"name": "kept"}
        assert b"secret" not in bytes_of_files(tmp_path)
        assert await erasure.erase(it.space, asked("e"), targets, {MAIN: encode("(erased)")}) == done
        await verified(it)


def scrubs_counted(log: SpaceLog) -> list[None]:
    """A list that gets longer with every scrub of the log."""
    counted: list[None] = []
    scrub = log.scrub

    def counting() -> None:
        counted.append(None)
        scrub()

    log.scrub = counting  # type: ignore[method-assign]  # counts, and does what it did
    return counted


@pytest.mark.rule("ERASE-2")
async def test_all_entities_of_an_erasure_go_or_none() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        other = await it.must(set_(Y, SECRET, blind=True))
        for wrong in ({X: [secret], Y: [secret]}, {X: [secret], EntityId(SPACE): [Version(1)]}, {X: [secret], Y: []}):
            with pytest.raises((errors.NotFound, errors.Forbidden, errors.Malformed)):
                await erasure.erase(it.space, asked("e"), wrong, NO_SURVIVORS)
        with pytest.raises(errors.UnknownBranch):
            await erasure.erase(it.space, asked("s"), {X: [secret], Y: [other]}, {DRAFT: None})
        assert await it.value(X) == SECRET
        assert await it.value(Y) == SECRET


@pytest.mark.rule("ERASE-2")
async def test_an_erasure_of_many_is_planned_again_if_any_of_them_was_written() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, SECRET, blind=True))
        other = await it.must(set_(Y, SECRET, blind=True))
        wrote = False

        async def meanwhile() -> None:
            nonlocal wrote
            if not wrote:
                wrote = True
                await it.must(set_(Y, {"name": "clean"}, blind=True))

        await erasure.erase(Overtaken(it.space, meanwhile), asked("e"), {X: [secret], Y: [other]}, NO_SURVIVORS)
        assert await it.value(X) is None
        assert await it.value(Y) == {"name": "clean"}
        await verified(it)
