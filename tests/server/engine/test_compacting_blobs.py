"""Blobs that nothing refers to go with a compaction, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from asking import Overtaken, asked
from destroying import bytes_of_files
from engines import Engine, LonelyStorage, engine
from space import delete_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash, TimeMs
from stemmadb.server.engine.blobs.blobs import metadata_id
from stemmadb.server.engine.plan import compaction, compaction_blobs
from stemmadb.server.engine.plan.compaction import CompactionDone
from stemmadb.server.storage.blob_directory import blob_path
from stemmadb.server.storage.port import SpaceLog, StorageFailed, StoredBlob
from stemmadb.server.storage.sqlite import SqliteStorage

DAY = 24 * 60 * 60 * 1000
NOW = TimeMs(10 * DAY)


async def put(it: Engine, text: str, *, created: int = 0) -> tuple[Hash, str]:
    data = text.encode()
    hash_ = Hash(blake3(data).digest())
    blob = StoredBlob(hash_, len(data), "text/plain", TimeMs(created), in_file=False)
    await it.space.in_turn(lambda log: log.put_blob(blob, data))
    return hash_, reference.write(hash_)


async def blobs(it: Engine) -> set[Hash]:
    return await it.space.read(lambda reader: {blob.hash for blob in reader.blobs()})


async def compact(it: Engine, name: str = "c", space: Any = None) -> CompactionDone:
    return await compaction.compact(space or it.space, asked(name), it.space.version, now=NOW)


@pytest.mark.rule("BLOB-2")
async def test_a_blob_goes_only_if_no_body_and_no_note_that_is_left_names_it() -> None:
    async with engine() as it:
        named = {}
        for place in ("value", "key", "inside", "note", "past", "branch", "meta", "nowhere"):
            named[place] = await put(it, place)
        await it.must(set_("urn:1", {"blob": named["value"][1]}, blind=True))
        await it.must(set_("urn:2", {named["key"][1]: 1}, blind=True))
        await it.must(set_("urn:3", f"see {named['inside'][1]}, please", blind=True))
        await it.must(set_("urn:4", 1, blind=True), note=encode({"message": named["note"][1]}))
        await it.must(set_("urn:5", named["past"][1], blind=True))
        await it.must(set_("urn:5", 2, blind=True))
        await it.must(set_(metadata_id(named["meta"][0]), {"labels": []}, blind=True))
        done = await compact(it)
        gone = {named["past"][0], named["nowhere"][0], named["branch"][0]}
        assert await blobs(it) == {hash_ for hash_, _ in named.values()} - gone
        assert done.blobs == 3
        assert done.bytes == sum(map(len, ("past", "nowhere", "branch"))) + len(encode(named["past"][1]))


@pytest.mark.rule("BLOB-2")
async def test_deleting_an_entity_removes_no_blob_and_compacting_it_away_does() -> None:
    async with engine() as it:
        hash_, text = await put(it, "x")
        await it.must(set_(metadata_id(hash_), {"blob": text}, blind=True))
        await it.must(delete_(metadata_id(hash_), blind=True))
        assert await blobs(it) == {hash_}
        await compact(it)
        assert await blobs(it) == set()


@pytest.mark.rule("BLOB-2")
async def test_an_upload_is_safe_for_24_hours() -> None:
    async with engine() as it:
        young, _ = await put(it, "young", created=NOW - DAY + 1)
        await put(it, "old", created=NOW - DAY)
        await compact(it)
        assert await blobs(it) == {young}
        assert compaction_blobs.UPLOAD_SAFE_MS == DAY


@pytest.mark.rule("BLOB-2")
@pytest.mark.parametrize("where", ["body", "note"])
async def test_a_blob_that_is_named_while_it_compacts_stays(where: str) -> None:
    async with engine() as it:
        hash_, text = await put(it, "x")
        await it.must(set_("urn:1", 1, blind=True))

        async def meanwhile() -> None:
            note = encode({"message": text}) if where == "note" else None
            await it.must(set_("urn:2", text if where == "body" else 1, blind=True), note=note)

        done = await compact(it, space=Overtaken(it.space, meanwhile))
        assert done.blobs == 1, "as it was planned: the record is written before blobs go"
        assert await blobs(it) == {hash_}


@pytest.mark.rule("BLOB-2")
async def test_a_blob_that_is_named_or_uploaded_again_at_the_last_moment_stays() -> None:
    async with engine() as it:
        hash_, text = await put(it, "named")
        again, _ = await put(it, "uploaded again")
        dropped, _ = await put(it, "dropped by another")
        gone, _ = await put(it, "gone")
        await it.must(set_("urn:1", 1, blind=True))
        space = LastMoment(it, text, again, dropped)
        done = await compact(it, space=space)
        assert (done.blobs, await blobs(it)) == (4, {hash_, again}), "counted as planned"
        assert gone not in await blobs(it)


class LastMoment(Overtaken):
    """Things happen right before the turn in which blobs are dropped."""

    def __init__(self, it: Engine, text: str, again: Hash, dropped: Hash) -> None:
        super().__init__(it.space, lambda: it.must(set_("urn:9", 1, blind=True)))
        self._it = it
        self._act = (text, again, dropped)

    async def in_turn(self, work: Any) -> Any:
        text, again, dropped = self._act
        await self._it.must(set_("urn:2", text, blind=True))

        def change(log: SpaceLog) -> None:
            log.drop_blobs([again, dropped])
            log.put_blob(StoredBlob(again, 14, "text/plain", NOW, in_file=False), b"uploaded again")

        await self._it.space.in_turn(change)
        return await self._it.space.in_turn(work)


@pytest.mark.rule("BLOB-2")
async def test_the_files_of_blobs_go_too(tmp_path: Path) -> None:
    data = b"large " * 100
    hash_ = Hash(blake3(data).digest())
    async with engine(SqliteStorage(tmp_path)) as it:

        def keep(log: SpaceLog) -> Path:
            assert log.directory is not None
            path = blob_path(log.directory, hash_)
            path.parent.mkdir()
            path.write_bytes(data)
            log.put_blob(StoredBlob(hash_, len(data), "text/plain", TimeMs(0), in_file=True), None)
            return path

        path = await it.space.in_turn(keep)
        done = await compact(it)
        assert (done.blobs, done.bytes, path.exists()) == (1, len(data), False)


@pytest.mark.rule("BLOB-2", "COMPACT-1")
async def test_no_file_holds_the_bytes_of_a_blob_that_was_dropped_from_the_database(tmp_path: Path) -> None:
    async with engine(SqliteStorage(tmp_path)) as it:
        await put(it, "nobody names this secret")
        assert b"this secret" in bytes_of_files(tmp_path)
        assert (await compact(it)).blobs == 1
        assert b"this secret" not in bytes_of_files(tmp_path)


@pytest.mark.rule("COMPACT-1", "COMMIT-11")
async def test_a_compaction_answers_only_once_what_it_dropped_is_scrubbed() -> None:
    scrubs: list[bool] = []

    def fail(operation: str) -> None:
        if operation == "scrub":
            scrubs.append(is_stuck)
            if is_stuck and len(scrubs) > 1:  # its own succeeds, and the one for the blobs does not
                raise StorageFailed

    is_stuck = True
    async with engine(LonelyStorage(fail)) as it:
        await put(it, "x")
        floor = it.space.version
        for tries in (2, 3):
            with pytest.raises(errors.Unavailable):
                await compaction.compact(it.space, asked("c"), floor, now=NOW)
            assert len(scrubs) == tries
        is_stuck = False
        assert (await compaction.compact(it.space, asked("c"), floor, now=NOW)).floor == floor
        assert len(scrubs) == 4
        assert await blobs(it) == set()


async def test_notes_are_looked_through_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_blobs, "NOTES_PAGE", 2)
    async with engine() as it:
        kept = set()
        for number in range(7):
            hash_, text = await put(it, f"blob {number}")
            await it.must(set_("urn:1", number, blind=True), note=encode({"message": text}))
            kept.add(hash_)
        await compact(it)
        assert await blobs(it) == kept


def test_a_reference_is_found_in_any_bytes_and_nothing_else_is() -> None:
    hash_ = Hash(blake3(b"x").digest())
    text = reference.write(hash_).encode()
    assert compaction_blobs.named_in(b"\xff" + text + text + b"\x00") == {hash_}
    assert compaction_blobs.named_in(b"b3:" + b"a" * 51 + b"b") == set()
    assert compaction_blobs.named_in(text[:-1]) == set()
    assert compaction_blobs.named_in(None) == set()
    assert compaction_blobs.named_in(b"") == set()
