"""A stream that is not what an export wrote is refused, with the line or the place, and nothing is left behind."""

from __future__ import annotations

import base64
import io
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from blake3 import blake3

from command_line import here
from forging import forged
from kept_spaces import fill
from space import BOB, SPACE
from stemmadb.protocol.errors import BadStream, BrokenChain, StemmaError
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import TagDelete
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.server.maintenance import records
from stemmadb.server.maintenance.export import export
from stemmadb.server.maintenance.import_batches import import_spaces
from stemmadb.server.maintenance.import_space import receive
from stemmadb.server.maintenance.stream import LineReader
from stemmadb.server.storage.memory import MemoryStorage


@pytest.fixture(scope="module")
def good() -> list[bytes]:
    """The lines of a stream with one of everything."""
    log = MemoryStorage().open(SPACE, create=True)
    fill(log)
    into = io.BytesIO()
    export(log, into.write)
    return into.getvalue().splitlines(keepends=True)


def refused(lines: list[bytes], directory: Path, **how: Any) -> StemmaError:
    """Why; nothing but the lock file may be there afterwards."""
    with pytest.raises((BadStream, BrokenChain)) as found:
        import_spaces(io.BytesIO(b"".join(lines)), directory, **how)
    assert [path.name for path in directory.iterdir()] == ["lock"]
    return found.value


def sealed(lines: list[bytes]) -> list[bytes]:
    """The same lines with the right hash at the end, as one would write who knows the format."""
    end = json.loads(lines[-1])
    end["stream"] = reference.write(blake3(b"".join(lines[:-1])).digest())
    return [*lines[:-1], json.dumps(end).encode() + b"\n"]


def edited(lines: list[bytes], number: int, edit: Callable[[dict[str, Any]], Any]) -> list[bytes]:
    """One line changed (counted from 1), and the end made to fit."""
    line = json.loads(lines[number - 1])
    edit(line)
    return sealed([*lines[: number - 1], json.dumps(line).encode() + b"\n", *lines[number:]])


@pytest.mark.rule("KEEP-3", "FACT-3")
def test_a_stream_cut_anywhere_is_refused(good: list[bytes], tmp_path: Path) -> None:
    for length in range(1, len(good)):
        found = refused(good[:length], tmp_path)
        assert isinstance(found, BadStream)
        assert found.facts["line"] == length + 1
    data = b"".join(good)
    chance = random.Random(5)
    for _ in range(20):
        refused([data[: chance.randrange(1, len(data))]], tmp_path)
    assert "not whole" in refused([data[:-1]], tmp_path).message


@pytest.mark.rule("KEEP-3", "FACT-3")
def test_a_line_left_out_doubled_or_out_of_order_is_refused(good: list[bytes], tmp_path: Path) -> None:
    for number in range(len(good)):
        without = [*good[:number], *good[number + 1 :]]
        twice = [*good[:number], good[number], *good[number:]]
        swapped = [*good[:number], *reversed(good[number : number + 2]), *good[number + 2 :]]
        for lines in (without, twice, swapped):
            if lines != good:
                refused(sealed(lines), tmp_path)


@pytest.mark.rule("KEEP-3", "FACT-3")
def test_a_changed_byte_anywhere_is_refused(good: list[bytes], tmp_path: Path) -> None:
    data = b"".join(good)
    chance = random.Random(11)
    for _ in range(60):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        refused([bytes(changed)], tmp_path)


@pytest.mark.rule("FACT-3")
def test_garbage_is_refused(good: list[bytes], tmp_path: Path) -> None:
    for data in (b"", b"\n", b"{}\n", b"[]\n", b"null\n", b"not json\n", b"\xff\xfe\n", b'{"stemmadb": "other"}\n'):
        assert isinstance(refused([data], tmp_path), BadStream)
    for data in (b"garbage\n", b"{}\n", b'{"stemmadb":"commit"}\n', b"[" * 100_000 + b"\n", b"\0" * 1000 + b"\n"):
        found = refused([*good[:5], data, *good[5:]], tmp_path)
        assert isinstance(found, BadStream)
        assert found.facts["line"] == 6


def test_a_line_that_is_too_long_is_refused_before_it_is_read_whole(good: list[bytes], tmp_path: Path) -> None:
    longest = max(map(len, good[:20]))
    found = refused(good, tmp_path, line_bytes_max=longest - 1)
    assert isinstance(found, BadStream)
    assert f"at most {longest - 1} bytes" in found.message
    import_spaces(io.BytesIO(b"".join(good)), tmp_path, line_bytes_max=max(map(len, good)))


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"format": 2}, "format 2 is not known"),
        ({"space": "did:key:zNobody"}, "is not an Ed25519 did:key"),
        ({"space": "../../elsewhere"}, "is not an Ed25519 did:key"),
        ({"space": BOB}, "does not follow the commit before it"),
        ({"version": 22}, "the stream was to end at 22"),
        ({"version": 24}, "the stream was to end at 24"),
        ({"hash": "b3:" + "a" * 52}, "the stream was to end at 23"),
        ({"more": 1}, "is not a line of an export"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(
    good: list[bytes], tmp_path: Path, header: dict[str, Any], why: str
) -> None:
    assert why in refused(edited(good, 1, lambda line: line.update(header)), tmp_path).message


@pytest.mark.parametrize("count", ["commits", "facts", "blobs", "hash"])
def test_an_end_that_counts_wrongly_is_refused(good: list[bytes], tmp_path: Path, count: str) -> None:
    end = json.loads(good[-1])
    end[count] = end[count] + 1 if isinstance(end[count], int) else "b3:" + "a" * 52
    assert "counts other" in refused([*good[:-1], json.dumps(end).encode() + b"\n"], tmp_path).message


def test_more_after_the_end_must_be_another_stream(good: list[bytes], tmp_path: Path) -> None:
    assert "begins with an 'export' line" in refused([*good, good[3]], tmp_path).message
    assert "is here twice" in refused(good + good, tmp_path).message


def blob_line(lines: list[bytes]) -> int:
    """The line, counted from 1, of the large blob, with its one chunk behind it."""
    found = [number for number, line in enumerate(lines, 1) if line.startswith(b'{"stemmadb":"blob"')]
    return max(found, key=lambda number: json.loads(lines[number - 1])["size"])


@pytest.mark.rule("BLOB-1")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"size": 12}, "do not give its name and its size"),
        ({"size": 102_401}, "are missing"),
        ({"size": -1}, "0 or more"),
        ({"size": 1 << 63}, "0 or more"),
        ({"size": 0}, "do not give its name"),
        ({"created": -1}, "0 or more"),
        ({"content_type": "x" * 300}, "a content type"),
        ({"content_type": "text/\u0000"}, "a content type"),
        ({"hash": "b3:" + "a" * 52}, "do not give its name"),
        ({"hash": "b3:short"}, "is not a reference"),
    ],
)
def test_a_blob_that_is_not_as_described_is_refused(
    good: list[bytes], tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    found = refused(edited(good, blob_line(good), lambda line: line.update(change)), tmp_path)
    assert isinstance(found, BadStream)
    assert why in found.message


@pytest.mark.rule("BLOB-1")
@pytest.mark.parametrize("change", [{"at": 1}, {"data": ""}, {"data": "AAAA"}])
def test_chunks_that_do_not_make_the_blob_are_refused(
    good: list[bytes], tmp_path: Path, change: dict[str, Any]
) -> None:
    refused(edited(good, blob_line(good) + 1, lambda line: line.update(change)), tmp_path)


def test_a_blob_that_comes_twice_is_refused(good: list[bytes], tmp_path: Path) -> None:
    at = blob_line(good) - 1
    twice = sealed([*good[: at + 2], *good[at : at + 2], *good[at + 2 :]])
    assert "was here before" in refused(twice, tmp_path).message


def test_a_changed_type_of_a_blob_is_found_by_the_hash_of_the_stream(good: list[bytes], tmp_path: Path) -> None:
    at = blob_line(good) - 1
    line = good[at].replace(b"text/plain", b"text/html1")
    assert "do not give the hash" in refused([*good[:at], line, *good[at + 1 :]], tmp_path).message


COMMIT_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"version": 0}, "a version is 1 or more"),
    ({"version": 1 << 63}, "fit in 64 bits"),
    ({"time": -1}, "fit in 64 bits"),
    ({"author": "nobody"}, "is not an Ed25519 did:key"),
    ({"author": BOB}, "does not give its hash"),
    ({"session": None}, "a session and a local, or an operation id"),
    ({"session": "AAAA"}, "of 16 bytes each"),
    ({"local": 0}, "a session and a local"),
    ({"local": 1 << 63}, "a session and a local"),
    ({"operation": "AAAAAAAAAAAAAAAAAAAAAA=="}, "a session and a local, or an operation id"),
    ({"branch": "no such name!"}, "is not a name"),
    ({"branch": None}, "is not a name"),
    ({"note": "wQ=="}, "The value cannot be stored"),
    ({"note_salt": None}, "there or gone together"),
    ({"note_digest": "b3:" + "a" * 52}, "only of what is gone"),
    ({"note": None, "note_salt": None}, "does not give its hash"),
    ({"request": "b3:"}, "is not a reference"),
    ({"hash": "b3:" + "a" * 52}, "does not give its hash"),
    ({"previous": "b3:" + "a" * 52}, "does not follow the commit before it"),
    ({"arguments": "wQ=="}, "does not give its hash"),
    ({"fact_count": 1}, "has 1 facts, and more are here"),
    ({"fact_count": 3}, "1 facts of version 1 are missing"),
    ({"fact_count": -1}, "at most"),
    ({"fact_count": 1 << 21}, "at most"),
    ({"facts": []}, "2 facts of version 1 are missing"),
    ({"unknown": 1}, "is not a line of an export"),
]


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize(("change", "why"), COMMIT_CHANGES)
def test_a_changed_commit_is_refused(good: list[bytes], tmp_path: Path, change: dict[str, Any], why: str) -> None:
    assert why in refused(edited(good, 2, lambda line: line.update(change)), tmp_path).message


FACT_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"id": "not a uri"}, "is not an entity id"),
    ({"id": "urn:z"}, "does not give its hash"),
    ({"kind": "patch"}, "a patch is a list of operations"),
    ({"kind": "delete"}, "a delete has no body"),
    ({"kind": "other"}, "is not a line of an export"),
    ({"branch": "main"}, "only where its commit has none"),
    ({"parent": "b3:" + "a" * 52}, "does not give its hash"),
    ({"parent": "main"}, "is not a reference"),
    ({"hash": "b3:" + "a" * 52}, "does not give its hash"),
    ({"body": "wQ=="}, "begins no msgpack item"),
    ({"body": "gqFhAaFhAg=="}, "occurs twice"),
    ({"body": "wA=="}, "does not give its hash"),
    ({"body": None}, "there or gone together"),
    ({"body": None, "salt": None}, "does not give its hash"),
    ({"digest": "b3:" + "a" * 52}, "only of what is gone"),
    ({"salt": "AAAA"}, "does not give"),
]


@pytest.mark.rule("FACT-2")
@pytest.mark.parametrize(("change", "why"), FACT_CHANGES)
def test_a_changed_fact_is_refused(good: list[bytes], tmp_path: Path, change: dict[str, Any], why: str) -> None:
    assert why in refused(edited(good, 2, lambda line: line["facts"][0].update(change)), tmp_path).message


@pytest.mark.rule("ERASE-1")
def test_a_body_left_out_that_nothing_explains_is_refused(good: list[bytes], tmp_path: Path) -> None:
    number = next(n for n, line in enumerate(good, 1) if b'"version":23,' in line and b'"commit"' in line)
    line = json.loads(good[number - 1])
    fact = line["facts"][1]
    digest = facts.digest_of(base64.b64decode(fact["salt"]), base64.b64decode(fact["body"]))

    def leave_out(line: dict[str, Any]) -> None:
        del line["facts"][1]["salt"], line["facts"][1]["body"]
        line["facts"][1]["digest"] = reference.write(digest)

    found = refused(edited(good, number, leave_out), tmp_path)
    assert isinstance(found, BrokenChain)
    assert "no erasure or compaction explains it" in found.message


def forged_stream(**how: Any) -> list[bytes]:
    """A stream with one record that no admission made; all its hashes hold."""
    log = MemoryStorage().open(SPACE, create=True)
    entry = forged(log, **how)
    line = [msgspec.json.encode(line) + b"\n" for line in records.lines_of(entry.commit, entry.facts)]
    hash_ = reference.write(entry.commit.hash)
    head = {"stemmadb": "export", "format": 1, "space": SPACE, "version": 1, "hash": hash_}
    counts = {"commits": 1, "facts": len(entry.facts), "blobs": 0}
    end = {"stemmadb": "end", "end": True, **counts, "hash": hash_, "stream": ""}
    return sealed([json.dumps(head).encode() + b"\n", *line, json.dumps(end).encode() + b"\n"])


@pytest.mark.rule("PATCH-1")
def test_a_patch_that_does_not_apply_is_refused_although_its_hash_holds(tmp_path: Path) -> None:
    patch = encode([{"op": "remove", "path": "/nothing"}])
    lines = forged_stream(bodies=(("set", "urn:x", encode({})), ("patch", "urn:x", patch)))
    found = refused(lines, tmp_path)
    assert (found.facts["version"], found.facts["place"]) == (1, "fact 1 (urn:x)")


@pytest.mark.rule("FACT-3")
def test_a_record_that_no_admission_made_never_reaches_the_log(tmp_path: Path) -> None:
    lines = LineReader(io.BytesIO(b"".join(forged_stream(details=TagDelete(name="none"), branch=None))))
    header = lines.begin()
    assert header is not None
    log = MemoryStorage().open(SPACE, create=True)
    with pytest.raises(BrokenChain, match="tag 'none' is not there"):
        receive(lines, header, log)
    with log.reader() as reader:
        assert reader.tip().version == 0


@pytest.mark.rule("FACT-3")
def test_the_stream_of_a_sound_record_made_by_hand_is_taken(tmp_path: Path) -> None:
    (done,) = import_spaces(io.BytesIO(b"".join(forged_stream(bodies=(("set", "urn:x", encode({})),)))), tmp_path)
    assert done.version == 1


@pytest.mark.rule("KEEP-3")
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stream")
    ran = here("import", "--data", tmp_path / "data", tmp_path / "stream")
    assert ran.code == 2
    assert "is not a regular file. Use '-' to read from a pipe." in ran.err
