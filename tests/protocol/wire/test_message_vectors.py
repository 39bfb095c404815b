"""The golden messages: both encodings of each say the same, and an independent decoder agrees (WIRE-6)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import msgpack
import pytest
from blake3 import blake3
from hypothesis import given, settings

from stemmadb.protocol.model.commit.request import Content, digest_request
from stemmadb.protocol.model.log import chain, commit_record
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, Local
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import Codec, MsgpackCodec
from stemmadb.protocol.wire.messages import CLIENT_MESSAGES, REQUESTS, SERVER_MESSAGES, type_of
from stemmadb.protocol.wire.messages.base import Part, WriteRequest
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.reading import LogAnswer
from stemmadb.protocol.wire.messages.session import Ok
from stemmadb.protocol.wire.messages.structure import operation_content, operation_digest
from stemmadb.protocol.wire.messages.sync import Sync, joined
from stemmadb.protocol.wire.records import commit_of, fact_of
from wire_samples import of

FILE: dict[str, Any] = json.loads((pathlib.Path(__file__).parents[2] / "vectors" / "messages.json").read_text())
CASES: list[dict[str, Any]] = FILE["cases"]
TO_SERVER = "client to server"
ANSWER_OF = {type_of(cls): cls.answer for cls in REQUESTS}


def _read(codec: Codec, case: dict[str, Any], data: Any) -> Any:
    if case["direction"] == TO_SERVER:
        return codec.read_client(data)
    message = codec.read_server(data)
    if isinstance(message, Ok):
        return message.id, codec.read_result(message, ANSWER_OF[case["request"]])
    return message


def _write(codec: Codec, read: Any) -> Any:
    return codec.encode_answer(*read) if isinstance(read, tuple) else codec.encode(read)


@pytest.mark.rule("WIRE-6", "WIRE-1")
@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_both_encodings_of_a_golden_message_say_the_same(case: dict[str, Any]) -> None:
    binary, text = MsgpackCodec(), JsonCodec()
    data = bytes.fromhex(case["msgpack_hex"])
    read = _read(binary, case, data)
    assert _read(text, case, json.dumps(case["json"])) == read
    assert _write(binary, read) == data
    assert json.loads(_write(text, read)) == case["json"]


@pytest.mark.rule("WIRE-6")
@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_another_msgpack_library_sees_the_same_fields(case: dict[str, Any]) -> None:
    plain = msgpack.unpackb(bytes.fromhex(case["msgpack_hex"]))
    assert plain["type"] == case["type"] == case["json"]["type"]
    assert list(plain) == list(case["json"])
    assert _write(MsgpackCodec(), _read(MsgpackCodec(), case, msgpack.packb(plain))).hex() == case["msgpack_hex"]


LONG_HEADERS = {"ok (history)", "ok (log)"}


@pytest.mark.rule("WIRE-6")
def test_the_golden_bytes_are_the_shortest_but_where_the_file_says_otherwise() -> None:
    longer = set()
    for case in CASES:
        data = bytes.fromhex(case["msgpack_hex"])
        if msgpack.packb(msgpack.unpackb(data)) != data:
            longer.add(case["title"])
    assert longer == LONG_HEADERS
    assert all(f"'{title}'" in FILE["description"] for title in LONG_HEADERS)


SAME = [case for case in CASES if "json_same" in case]


@pytest.mark.rule("WIRE-1", "MODEL-4")
@pytest.mark.parametrize("case", SAME, ids=[case["title"] for case in SAME])
def test_a_default_that_is_written_out_in_json_says_and_hashes_the_same(case: dict[str, Any]) -> None:
    read = _read(JsonCodec(), case, json.dumps(case["json"]))
    for other in case["json_same"]:
        assert json.dumps(other) != json.dumps(case["json"])
        assert _read(JsonCodec(), case, json.dumps(other)) == read
        assert _digest_of(_read(JsonCodec(), case, json.dumps(other))) == _digest_of(read)


def _digest_of(message: Any) -> bytes | None:
    if isinstance(message, CommitMessage):
        return digest_request(message.nonce, message.content)
    return operation_digest(message) if isinstance(message, WriteRequest) else None


@pytest.mark.rule("WIRE-1", "MODEL-4")
@settings(max_examples=200, deadline=None)
@given(content=of(Content))
def test_the_server_leaves_every_default_out_of_the_content_that_it_makes(content: Content) -> None:
    """The bytes of a JSON commit, against a client that writes each field that is not the default, and no other."""
    message = CommitMessage(local=Local(1), nonce=b"n" * 16, content=encode(content))
    text = json.loads(JsonCodec().encode(message))
    spare, full = text["content"], dict(text["content"])
    full.setdefault("branch", "main")
    full.setdefault("reads", [])
    full["operations"] = [{"blind": False, **operation} for operation in full["operations"]]
    full["reads"] = [{"path": "", "locals": [], "branch": None, **read} for read in full["reads"]]
    made = [JsonCodec().read_client(json.dumps({**text, "content": one})) for one in (spare, full)]
    assert made[0] == made[1]
    assert isinstance(made[0], CommitMessage)
    assert msgpack.packb(msgpack.unpackb(made[0].content)) == made[0].content
    plain = msgpack.unpackb(made[0].content)
    assert plain.get("branch") != "main"
    assert plain.get("reads") != []
    assert all(item.get("path") != "" and item.get("locals") != [] for item in plain.get("reads", []))


COMMITS = [case for case in CASES if case["type"] == "commit"]


@pytest.mark.rule("COMMIT-5", "WIRE-6")
@pytest.mark.parametrize("case", COMMITS, ids=[case["title"] for case in COMMITS])
def test_a_commit_has_the_same_digest_in_both_encodings(case: dict[str, Any]) -> None:
    plain = msgpack.unpackb(bytes.fromhex(case["msgpack_hex"]))
    digest = blake3(msgpack.packb(["stemma.v1 request", plain["nonce"], plain["content"]])).hexdigest()
    assert digest == case["request_digest_hex"]
    read = _read(JsonCodec(), case, json.dumps(case["json"]))
    assert digest_request(read.nonce, read.content).hex() == digest


@pytest.mark.rule("WIRE-1", "WIRE-6")
@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_both_encodings_of_a_golden_message_have_the_same_fields_at_every_level(case: dict[str, Any]) -> None:
    assert _names(msgpack.unpackb(bytes.fromhex(case["msgpack_hex"])), case["json"]) == []


def _names(binary: Any, text: Any, at: str = "") -> list[str]:
    """Where a field is in one encoding only. Bodies and other bytes are compared by the codec."""
    if isinstance(binary, bytes) and at.endswith(("/content", "/arguments")):
        binary = msgpack.unpackb(binary)
    if isinstance(binary, dict) and isinstance(text, dict):
        shared = [
            found for name in set(binary) & set(text) for found in _names(binary[name], text[name], f"{at}/{name}")
        ]
        return [f"{at}/{name}" for name in sorted(set(binary) ^ set(text))] + shared
    if isinstance(binary, list) and isinstance(text, list):
        return [found for one, other in zip(binary, text, strict=True) for found in _names(one, other, at)]
    return []


WRITES = [case for case in CASES if "content_hex" in case]


@pytest.mark.rule("COMMIT-11", "WIRE-6")
@pytest.mark.parametrize("case", WRITES, ids=[case["title"] for case in WRITES])
def test_the_digest_of_a_write_is_what_the_page_says(case: dict[str, Any]) -> None:
    plain = msgpack.unpackb(bytes.fromhex(case["msgpack_hex"]))
    del plain["id"]
    nonce = plain.pop("nonce")
    content = msgpack.packb(plain)
    assert content.hex() == case["content_hex"]
    digest = blake3(msgpack.packb(["stemma.v1 request", nonce, content])).hexdigest()
    assert digest == case["request_digest_hex"]
    for codec, data in (
        (MsgpackCodec(), bytes.fromhex(case["msgpack_hex"])),
        (JsonCodec(), json.dumps(case["json"])),
    ):
        message = _read(codec, case, data)
        assert operation_content(message) == content
        assert operation_digest(message).hex() == digest


@pytest.mark.rule("COMMIT-11")
def test_every_write_with_an_operation_id_has_a_golden_digest() -> None:
    assert {case["type"] for case in WRITES} == {type_of(cls) for cls in REQUESTS if issubclass(cls, WriteRequest)}


MERGE = next(case["json"] for case in WRITES if case["type"] == "merge")


def _digest(**changes: Any) -> bytes:
    message = JsonCodec().read_client(json.dumps({**MERGE, **changes}))
    assert isinstance(message, WriteRequest)
    return operation_digest(message)


@pytest.mark.rule("COMMIT-11")
def test_a_write_sent_again_has_the_same_digest_and_another_one_has_not() -> None:
    assert _digest(id=99) == _digest(target="main", dry_run=False) == _digest()
    others = [
        _digest(nonce="AAAAAAAAAAAAAAAAAAAAAA=="),
        _digest(operation="AAAAAAAAAAAAAAAAAAAAAA=="),
        _digest(source="other"),
        _digest(resolutions=[{"id": "urn:todo:1"}]),
        _digest(note={"message": "another"}),
        _digest(),
    ]
    assert len(set(others)) == len(others)


@pytest.mark.rule("SYNC-1", "WIRE-6")
def test_the_golden_parts_of_a_large_commit_are_the_commit_as_a_whole() -> None:
    whole, first, last = (
        _read(MsgpackCodec(), case, bytes.fromhex(case["msgpack_hex"]))
        for title in ("someone else's commit", "a large commit, its first part", "a large commit, its last part")
        for case in CASES
        if case["title"] == f"sync ({title})"
    )
    assert isinstance(whole, Sync)
    assert first.more
    assert len(joined([first, last]).commits) == 1
    assert joined([first, last]) == whole


@pytest.mark.rule("WIRE-6")
def test_every_message_and_every_answer_has_a_golden_case() -> None:
    seen = {(case["direction"], case["type"]) for case in CASES}
    wanted = {(TO_SERVER, type_of(cls)) for cls in CLIENT_MESSAGES}
    wanted |= {("server to client", type_of(cls)) for cls in SERVER_MESSAGES}
    assert seen == wanted
    assert {case["request"] for case in CASES if case["type"] == "ok"} == set(ANSWER_OF)


def _log() -> LogAnswer:
    case = next(case for case in CASES if case.get("request") == "log" and case["type"] == "ok")
    answer: Part = _read(MsgpackCodec(), case, bytes.fromhex(case["msgpack_hex"]))[1]
    assert isinstance(answer, LogAnswer)
    return answer


@pytest.mark.rule("FACT-2", "FACT-3", "WIRE-6")
def test_the_golden_log_verifies_from_what_was_sent_alone() -> None:
    newer, older = _log().entries
    for entry in (older, newer):
        record = commit_of(entry)
        assert commit_record.hash_commit(FILE["space"], record) == entry.hash
        its_facts = [fact_of(item, entry.version, entry.branch) for item in entry.items]
        assert tuple(fact.hash for fact in its_facts) == entry.facts
    assert newer.previous == older.hash


@pytest.mark.rule("FACT-3")
def test_a_log_entry_that_does_not_follow_is_found_broken() -> None:
    entry = _log().entries[1]
    with pytest.raises(Exception, match="version 3 comes instead"):
        list(chain.verify(Did(FILE["space"]), [(commit_of(entry), [])]))
