"""A space goes through an export stream and comes back the same: hashes, bytes, answers."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from blake3 import blake3

from appends import append_to
from backends import Backend
from kept_spaces import LARGE, SECRET, SMALL, blob_of, fill
from logs import LogMaker
from space import BOB, SPACE, patch_, set_
from stemmadb.protocol.errors import BrokenChain, DirectoryHeld, NotEmpty, UnknownSpace
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Commit, genesis
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did, EntityId, Version
from stemmadb.server.engine.base import states
from stemmadb.server.maintenance import check_uploads, records
from stemmadb.server.maintenance import export as exporting
from stemmadb.server.maintenance.export import chunks, export
from stemmadb.server.maintenance.import_batches import import_spaces
from stemmadb.server.maintenance.import_space import BOUNDS, receive
from stemmadb.server.maintenance.progress import MaintenanceProgress
from stemmadb.server.maintenance.stream import CommitLine, LineReader
from stemmadb.server.maintenance.verify import Verified
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import LogReader, SpaceLog
from stemmadb.server.storage.sqlite import SqliteStorage


def exported(log: SpaceLog) -> bytes:
    into = io.BytesIO()
    export(log, into.write)
    return into.getvalue()


def received(data: bytes, log: SpaceLog, *, heads_max: int = 10) -> Verified:
    lines = LineReader(io.BytesIO(data))
    header = lines.begin()
    assert header is not None
    return receive(lines, header, log, heads_max=heads_max)


def history(log: SpaceLog) -> list[tuple[Commit, tuple[Fact, ...]]]:
    with log.reader() as reader:
        return list(reader.history())


def answers(reader: LogReader) -> Any:
    """What a reader can ask, beyond the history itself."""
    tip = reader.tip().version
    spans = {state.name: (state, reader.last_write(state.name, tip)) for state in reader.branches()}
    blobs = [(blob.hash, blob.size, blob.content_type, blob.created) for blob in reader.blobs()]
    return reader.tip(), spans, reader.tags(), reader.floor(), blobs, reader.ids("", None, 100)


@pytest.mark.rule("KEEP-3", "FACT-3")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_round_trip_is_exact_also_to_another_backend(log: SpaceLog, kind: str, tmp_path: Path) -> None:
    other = Backend(kind, tmp_path / "other")
    copy = other.open()
    done = received(exported(log), copy, heads_max=1)
    assert history(copy) == history(log)
    assert exported(copy) == exported(log)
    with log.reader() as one, copy.reader() as two:
        assert answers(one) == answers(two)
        assert (done.version, done.hash) == (one.tip().version, one.tip().hash)
    other.close()


def seen(reader: LogReader, spans: tuple[Span, ...], ids: list[EntityId]) -> Any:
    """The states without what it costs to replay them: snapshots do not go along."""
    found = states.load(reader, spans, ids).values()
    return {one.id: (one.value, one.version, one.hash, one.place) for one in found}


@pytest.mark.rule("KEEP-3", "COMMIT-8")
def test_every_state_is_the_same_after_a_round_trip(log: SpaceLog) -> None:
    copy = MemoryStorage().open(SPACE, create=True)
    received(exported(log), copy)
    ids = [EntityId("urn:a"), EntityId("urn:b"), EntityId("urn:secret"), EntityId("urn:only")]
    maker = LogMaker()
    with log.reader() as one, copy.reader() as two:
        maker.space.branches = {state.name: state for state in one.branches()}
        for name in maker.branches:
            for version in range(24):
                spans = maker.spans(name, version)
                assert seen(one, spans, ids) == seen(two, spans, ids)


@pytest.mark.rule("ERASE-1")
def test_what_was_erased_is_not_in_the_stream(log: SpaceLog) -> None:
    lines = [json.loads(line) for line in exported(log).splitlines()]
    secret = next(line for line in lines if line.get("version") == 2 and line["stemmadb"] == "commit")
    assert "note" not in secret
    assert secret["note_digest"].startswith("b3:")
    assert secret["facts"][0].keys() == {"id", "kind", "parent", "hash", "digest"}
    assert SECRET.encode() not in exported(log)


@pytest.mark.rule("FACT-4")
def test_the_stream_is_lines_of_json_with_a_header_and_an_end(log: SpaceLog) -> None:
    data = exported(log)
    lines = [json.loads(line) for line in data.splitlines()]
    with log.reader() as reader:
        hash_ = reference.write(reader.tip().hash)
    assert lines[0] == {"stemmadb": "export", "format": 1, "space": SPACE, "version": 23, "hash": hash_}
    before = data[: data.rindex(b"\n", 0, -1) + 1]
    counts = {"stemmadb": "end", "end": True, "commits": 23, "facts": 22, "blobs": 2, "hash": hash_}
    assert lines[-1] == counts | {"stream": reference.write(blake3(before).digest())}
    assert [line["stemmadb"] for line in lines[1:24]] == ["commit"] * 23
    assert data.endswith(b"\n")


def test_export_tells_how_far_it_is_and_what_it_wrote(log: SpaceLog) -> None:
    into, told = io.BytesIO(), list[MaintenanceProgress]()
    done = export(log, into.write, on_progress=told.append)
    assert (done.space, done.version, done.facts, done.blobs) == (SPACE, 23, 22, 2)
    assert done.bytes == len(into.getvalue())
    assert told[-1] == MaintenanceProgress("writing blobs", 2)


def test_an_empty_space_goes_through_a_stream() -> None:
    storage = MemoryStorage()
    copy = MemoryStorage().open(SPACE, create=True)
    done = received(exported(storage.open(SPACE, create=True)), copy)
    assert (done.version, done.hash) == (0, genesis(SPACE))


@pytest.mark.rule("KEEP-3")
def test_an_export_is_of_one_cut_while_the_space_goes_on(backend: Backend) -> None:
    log = backend.open()
    maker = LogMaker()
    append_to(
        log, Version(0), [maker.commit(set_("urn:a", 1, blind=True)), maker.commit(set_("urn:b", 1, blind=True))]
    )
    into = io.BytesIO()

    def write(data: bytes) -> None:
        into.write(data)
        if maker.version < 20:
            entry = maker.commit(set_("urn:a", maker.version, blind=True))
            append_to(log, Version(entry.commit.version - 1), [entry])

    assert export(log, write).version == 2
    assert received(into.getvalue(), MemoryStorage().open(SPACE, create=True)).version == 2


def test_a_commit_with_many_facts_goes_over_several_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FACTS_BYTES", 100)
    log = MemoryStorage().open(SPACE, create=True)
    maker = LogMaker()
    sets = [set_(f"urn:{number}", "x" * 30, blind=True) for number in range(20)]
    append_to(log, Version(0), [maker.commit(*sets), maker.commit(set_("urn:after", 1, blind=True))])
    data = exported(log)
    kinds = [json.loads(line)["stemmadb"] for line in data.splitlines()]
    assert kinds.count("facts") == 6
    copy = MemoryStorage().open(SPACE, create=True)
    received(data, copy)
    assert history(copy) == history(log)


@pytest.mark.parametrize("bound", ["BATCH_COMMITS", "BATCH_BYTES"])
def test_an_import_appends_in_batches_and_looks_up_what_it_has_appended(
    log: SpaceLog, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(check_uploads, bound, 2)
    appended: list[int] = []
    copy = MemoryStorage(fail=lambda step: appended.append(1) if step == "append" else None).open(SPACE, create=True)
    received(exported(log), copy, heads_max=1)
    assert history(copy) == history(log)
    assert 10 < len(appended) < 24


def test_chunks_fit_in_a_line_and_are_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "CHUNK_BYTES", 10)
    assert list(chunks(iter([b"a" * 7, b"b" * 7, b"", b"c" * 21]))) == [
        b"a" * 7 + b"b" * 3,
        b"b" * 4 + b"c" * 6,
        b"c" * 10,
        b"c" * 5,
    ]
    assert list(chunks(iter([b"a" * 10]))) == [b"a" * 10]


@pytest.mark.rule("BLOB-1")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_blobs_go_through_empty_small_and_in_a_file(log: SpaceLog, kind: str, tmp_path: Path) -> None:
    log.put_blob(blob_of(b""), b"")
    other = Backend(kind, tmp_path / "other")
    copy = other.open()
    assert received(exported(log), copy).blobs == 3
    with copy.reader() as reader:
        assert reader.blob_data(blob_of(SMALL).hash) == SMALL
        assert reader.blob_data(blob_of(b"").hash) == b""
        large = reader.blob(blob_of(LARGE).hash)
        assert large is not None
        assert large.in_file == (kind == "sqlite")
    if copy.directory is not None:
        assert (copy.directory / "blobs" / reference.write(large.hash)).read_bytes() == LARGE
    other.close()


@pytest.mark.rule("BLOB-1")
def test_a_blob_file_that_is_missing_fails_the_export(tmp_path: Path) -> None:
    backend = Backend("sqlite", tmp_path)
    log = backend.open()
    fill(log)
    assert log.directory is not None
    (log.directory / "blobs" / reference.write(blob_of(LARGE).hash)).unlink()
    with pytest.raises(BrokenChain, match="its bytes are gone"):
        exported(log)
    backend.close()


@pytest.mark.rule("BLOB-2")
def test_a_blob_that_is_compacted_away_meanwhile_is_left_out(tmp_path: Path) -> None:
    backend = Backend("sqlite", tmp_path)
    log = backend.open()
    fill(log)
    assert log.directory is not None
    file = log.directory / "blobs" / reference.write(blob_of(LARGE).hash)
    into = io.BytesIO()

    def write(data: bytes) -> None:
        into.write(data)
        if file.exists():
            log.drop_blobs([blob_of(LARGE).hash])
            file.unlink()

    assert export(log, write).blobs == 1
    assert received(into.getvalue(), MemoryStorage().open(SPACE, create=True)).blobs == 1
    backend.close()


# ---------------------------------------------------------------- into a data directory


def stream(space: Did = SPACE) -> bytes:
    log = MemoryStorage().open(space, create=True)
    if space == SPACE:
        fill(log)
    return exported(log)


def test_an_import_makes_a_space_in_a_data_directory(tmp_path: Path) -> None:
    (done,) = import_spaces(io.BytesIO(stream()), tmp_path / "new")
    assert (done.space, done.version) == (SPACE, 23)
    storage = SqliteStorage(tmp_path / "new", read_only=True)
    assert exported(storage.open(SPACE)) == stream()
    storage.close()
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["lock", "spaces"]


def test_several_streams_in_one_file_become_several_spaces(tmp_path: Path) -> None:
    data = stream() + stream(BOB)
    assert [one.space for one in import_spaces(io.BytesIO(data), tmp_path / "all")] == [SPACE, BOB]
    (only,) = import_spaces(io.BytesIO(data), tmp_path / "one", space=BOB)
    assert only.space == BOB
    assert SqliteStorage(tmp_path / "one").spaces() == [BOB]


def test_an_import_into_a_directory_that_has_the_space_is_refused(tmp_path: Path) -> None:
    import_spaces(io.BytesIO(stream()), tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NotEmpty):
        import_spaces(io.BytesIO(stream(BOB) + stream()), tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    import_spaces(io.BytesIO(stream(BOB)), tmp_path)
    assert SqliteStorage(tmp_path).spaces() == sorted([SPACE, BOB])


def test_an_import_into_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(DirectoryHeld):
        import_spaces(io.BytesIO(stream()), tmp_path)


def test_an_import_of_a_space_that_is_not_in_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownSpace):
        import_spaces(io.BytesIO(stream()), tmp_path, space=BOB)


def test_what_a_killed_import_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".incoming-left" / "spaces" / SPACE).mkdir(parents=True)
    import_spaces(io.BytesIO(stream(BOB)), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "spaces"]


class Interrupted(io.BytesIO):
    """Standard input when somebody presses Ctrl-C."""

    def readline(self, limit: int | None = -1, /) -> bytes:
        line = super().readline(limit)
        if b'"blob"' in line:
            raise KeyboardInterrupt
        return line


def test_an_interrupted_import_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        import_spaces(Interrupted(stream()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_spaces_that_cannot_all_be_shown_go_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[object] = []
    really = os.rename

    def rename(source: Path, target: Path) -> None:
        moves.append(target)
        if len(moves) == 2:
            raise OSError("the second cannot be moved")
        really(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="second"):
        import_spaces(io.BytesIO(stream() + stream(BOB)), tmp_path)
    assert list((tmp_path / "spaces").iterdir()) == []
    assert len(moves) == 3


def test_the_records_of_a_line_are_read_as_they_were_written(log: SpaceLog) -> None:
    for commit, its_facts in history(log):
        (line,) = records.lines_of(commit, its_facts)
        assert isinstance(line, CommitLine)
        data = msgspec.json.encode(line)
        assert records.read_commit(msgspec.json.decode(data, type=CommitLine), line.facts, BOUNDS) == (
            commit,
            its_facts,
        )


def test_a_patch_continues_a_fact_of_its_own_commit_whatever_is_kept(tmp_path: Path) -> None:
    log = MemoryStorage().open(SPACE, create=True)
    maker = LogMaker()
    step = {"op": "increment", "path": "/n", "by": 1}
    sets = [set_(f"urn:{number}", {"n": 0}, blind=True) for number in range(5)]
    patches = [patch_(f"urn:{number}", step, blind=True) for number in range(5)]
    append_to(log, Version(0), [maker.commit(*sets, *patches)])
    copy = MemoryStorage().open(SPACE, create=True)
    assert received(exported(log), copy, heads_max=1).facts == 10
