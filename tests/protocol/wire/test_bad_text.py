"""Bad JSON of every kind gets one typed error, with the place, in bounded time (WIRE-1, MODEL-3)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from stemmadb.protocol.errors import InvalidValue, LimitExceeded, Malformed, StemmaError, UnknownMessage
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.messages.reading import LogAnswer, QueryAnswer
from stemmadb.protocol.wire.messages.session import Ok

CODEC = JsonCodec()
NONCE = "AAAAAAAAAAAAAAAAAAAAAA=="
DEEP = "[" * 10_000 + "]" * 10_000
REFERENCE = "b3:" + "a" * 52


def commit(operation: str = '{"op":"set","id":"urn:a:1","body":1}', more: str = "") -> str:
    return f'{{"type":"commit","local":1,"nonce":"{NONCE}","content":{{"operations":[{operation}]}}{more}}}'


def body(text: str) -> str:
    return commit(f'{{"op":"set","id":"urn:a:1","body":{text}}}')


def reading(pending: str) -> str:
    return commit().replace("]}", f'],"reads":[{{"version":1,"locals":[{pending}]}}]}}')


def query(schema: str) -> str:
    return f'{{"type":"query","id":1,"query":{{"roots":[{{"id":"urn:a:*","schema":{schema}}}]}}}}'


def blob(reference: str) -> str:
    return f'{{"type":"blob.end","id":1,"blob":{reference}}}'


BAD: list[tuple[str, str, type[StemmaError], str]] = [
    ("nothing", "", Malformed, "(message)"),
    ("not JSON", "{type: ping}", Malformed, "(message)"),
    ("a cut message", '{"type":"ping","id":1', Malformed, "(message)"),
    ("text behind the message", '{"type":"ping","id":1} x', Malformed, "(message)"),
    ("a list", "[]", Malformed, "(message)"),
    ("null", "null", Malformed, "(message)"),
    ("a text", '"ping"', Malformed, "(message)"),
    ("an empty object", "{}", Malformed, "type"),
    ("a type that is a number", '{"type":5}', Malformed, "type"),
    ("a type that is null", '{"type":null}', Malformed, "type"),
    ("an unknown type", '{"type":"commits"}', UnknownMessage, ""),
    ("a type with a surrogate", '{"type":"\\ud800"}', UnknownMessage, ""),
    ("a message of the other direction", '{"type":"hello"}', UnknownMessage, ""),
    ("a missing field", '{"type":"ping"}', Malformed, "id"),
    ("an unknown field", '{"type":"ping","id":1,"x":1}', Malformed, "x"),
    ("an unknown field with a surrogate", '{"type":"ping","id":1,"\\ud800":1}', Malformed, ""),
    ("the reserved field", '{"type":"ping","id":1,"channel":1}', Malformed, "channel"),
    ("a wrong type", '{"type":"ping","id":"1"}', Malformed, "id"),
    ("a float for a number", '{"type":"ping","id":1.0}', Malformed, "id"),
    ("a bool for a number", '{"type":"ping","id":true}', Malformed, "id"),
    ("null for a number", '{"type":"ping","id":null}', Malformed, "id"),
    ("a number beyond 64 bits", '{"type":"ping","id":99999999999999999999}', Malformed, "id"),
    ("a number of 5,000 digits", '{"type":"ping","id":' + "9" * 5_000 + "}", Malformed, "(message)"),
    ("1e400", '{"type":"ping","id":1e400}', Malformed, "id"),
    ("NaN", '{"type":"ping","id":NaN}', Malformed, "(message)"),
    ("a key twice", '{"type":"ping","id":1,"id":2}', Malformed, "id"),
    ("a surrogate in a text", '{"type":"blame","id":1,"entity":"\\ud800"}', Malformed, "entity"),
    ("a surrogate in the text itself", '{"type":"blame","id":1,"entity":"\ud800"}', Malformed, "(message)"),
    ("nested 10,000 deep", DEEP, Malformed, "(message)"),
    ("a field nested 10,000 deep", f'{{"type":"ping","id":{DEEP}}}', Malformed, ""),
    ("bytes that are not base64", commit().replace(NONCE, "???"), Malformed, "nonce"),
    ("bytes in the other base64 alphabet", commit().replace(NONCE, "--------------------AA=="), Malformed, "nonce"),
    ("bytes without padding", commit().replace("==", ""), Malformed, "nonce"),
    ("base64 with stray bits", commit().replace("AA==", "AB=="), Malformed, "nonce"),
    ("bytes that are not ASCII", commit().replace(NONCE, "ä"), Malformed, "nonce"),
    ("bytes of the wrong length", commit().replace(NONCE, "AAAA"), Malformed, "nonce"),
    ("bytes that are a number", commit().replace(f'"{NONCE}"', "5"), Malformed, "nonce"),
    ("a reference without its prefix", blob('"' + "a" * 52 + '"'), Malformed, "blob"),
    ("a reference in upper case", blob('"b3:' + "A" * 52 + '"'), Malformed, "blob"),
    ("a reference that is null", blob("null"), Malformed, "blob"),
    ("a content that is text", commit().replace('{"operations"', '"x","y":{"operations"'), Malformed, "content"),
    ("a content without operations", commit("").replace('"operations":[]', ""), Malformed, "content/operations"),
    ("an unknown operation", commit('{"op":"put","id":"urn:a:1"}'), Malformed, "content/operations/0/op"),
    ("an operation that is a number", commit("1"), Malformed, "content/operations/0"),
    ("a wrong pending name", reading('["AA==",1,2]'), Malformed, "content/reads/0/locals/0"),
    ("a pending name in bad base64", reading('["A",1]'), Malformed, "content/reads/0/locals/0/0"),
    ("a body with a NaN", body("NaN"), Malformed, ""),
    ("a body with 1e400", body("[1e400]"), InvalidValue, "content/operations/0/body/0"),
    ("a body with an integer beyond 64 bits", body('{"a":9223372036854775808}'), InvalidValue, "/a"),
    ("a body with a surrogate", body('{"a":"\\udfff"}'), InvalidValue, "/a"),
    ("a body with a surrogate in a key", body('{"\\udfff":1}'), InvalidValue, "content/operations/0/body"),
    ("a body with a key twice", body('{"a":1,"a":1}'), Malformed, "a"),
    ("a body nested 68 deep", body("[" * 68 + "]" * 68), InvalidValue, "/0"),
    ("a body nested 10,000 deep", body(DEEP), Malformed, ""),
    ("a schema nested 65 deep", query('{"a":' + "[" * 64 + "]" * 64 + "}"), Malformed, "query/roots/0/schema/a"),
    ("a schema with 1e400", query('{"const":1e400}'), Malformed, "schema/const"),
    ("a schema with a surrogate", query('{"const":"\\ud800"}'), Malformed, "schema/const"),
    ("a schema that is a text", query('"x"'), Malformed, "schema"),
]  # fmt: skip


@pytest.mark.rule("WIRE-1", "MODEL-3")
@pytest.mark.parametrize(("text", "error", "place"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_message_gets_one_typed_error_with_its_place(text: str, error: type[StemmaError], place: str) -> None:
    with pytest.raises(error) as caught:
        CODEC.read_client(text)
    assert type(caught.value) is error
    assert place in str(caught.value.facts.get("path", ""))
    caught.value.message.encode()


SYNC = f'"type":"sync","from":1,"to":1,"hash":"{REFERENCE}"'
SERVER_BAD: list[tuple[str, str, type[StemmaError]]] = [
    ("a message of the other direction", '{"type":"ping","id":1}', UnknownMessage),
    ("an ok without a result", '{"type":"ok","id":1}', Malformed),
    ("an ok without an id", '{"type":"ok","result":{}}', Malformed),
    ("a result with NaN", '{"type":"ok","id":1,"result":{"a":NaN}}', Malformed),
    ("details with a surrogate", '{"type":"error","code":"x","message":"","details":{"a":"\\ud800"}}', Malformed),
    ("a limit with a surrogate", '{"type":"hello","limits":{"\\ud800":1}}', Malformed),
    ("limits that are a list", '{"type":"hello","limits":[1]}', Malformed),
    ("an unknown verdict", f'{{{SYNC},"verdicts":[{{"verdict":"maybe"}}]}}', Malformed),
    ("a verdict without a kind", f'{{{SYNC},"verdicts":[{{"local":1}}]}}', Malformed),
    ("a verdict that is a number", f'{{{SYNC},"verdicts":[1]}}', Malformed),
    ("verdicts that are an object", f'{{{SYNC},"verdicts":{{}}}}', Malformed),
    ("a verdict with 1e400", f'{{{SYNC},"verdicts":[{{"verdict":"rejected","local":1,"code":"x","message":"",'
                             f'"details":{{"a":1e400}}}}]}}', Malformed),
]  # fmt: skip


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(("text", "error"), [case[1:] for case in SERVER_BAD], ids=[case[0] for case in SERVER_BAD])
def test_a_client_refuses_a_bad_message_of_its_server(text: str, error: type[StemmaError]) -> None:
    with pytest.raises(error) as caught:
        CODEC.read_server(text)
    assert type(caught.value) is error


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(
    ("result", "place"),
    [
        ("null", "result"),
        ('{"version":"x"}', "result/version"),
        ('{"version":1,"entities":[{"id":"a","version":1,"hash":"b3:","body":1}]}', "result/entities/0/hash"),
        ('{"version":1,"entities":[{"id":"a","hash":"' + REFERENCE + '"}]}', "result/entities/0/version"),
    ],
)
def test_a_result_of_the_wrong_shape_is_malformed(result: str, place: str) -> None:
    ok = CODEC.read_server(f'{{"type":"ok","id":1,"result":{result}}}')
    assert isinstance(ok, Ok)
    with pytest.raises(Malformed) as caught:
        CODEC.read_result(ok, QueryAnswer)
    assert caught.value.facts["path"] == place


@pytest.mark.rule("FACT-3")
def test_what_a_write_did_is_an_object_in_json_and_the_hashed_bytes_again_for_us() -> None:
    entry: dict[str, Any] = {
        "version": 1, "hash": REFERENCE, "previous": REFERENCE, "author": "did:x", "time": 1,
        "request": REFERENCE, "note_digest": REFERENCE, "kind": "revoke",
        "arguments": {"kind": "revoke", "delegation": REFERENCE},
    }  # fmt: skip
    ok = Ok(id=1, result=msgspec.Raw(json.dumps({"version": 1, "entries": [entry]}).encode()))
    read = CODEC.read_result(ok, LogAnswer)
    assert msgspec.msgpack.decode(read.entries[0].arguments) == {"kind": "revoke", "delegation": bytes(32)}
    entry["arguments"] = {"kind": "revoke"}
    ok = Ok(id=1, result=msgspec.Raw(json.dumps({"version": 1, "entries": [entry]}).encode()))
    with pytest.raises(Malformed, match="arguments/delegation"):
        CODEC.read_result(ok, LogAnswer)


@pytest.mark.rule("WIRE-1")
def test_the_size_of_a_text_is_bounded_by_type_and_in_all() -> None:
    codec = JsonCodec(Limits(message_bytes_max=1_000, schema_bytes_max=500))
    codec.read_client(body('"' + "x" * 700 + '"'))
    with pytest.raises(LimitExceeded, match="message_bytes_max"):
        codec.read_client(body('"' + "ä" * 700 + '"'))
    with pytest.raises(LimitExceeded, match="schema_bytes_max"):
        codec.read_client(query('{"const":"' + "x" * 700 + '"}'))
    with pytest.raises(LimitExceeded, match="message_bytes_max"):
        codec.encode(CODEC.read_client(query('{"const":"' + "x" * 1_000 + '"}')))
