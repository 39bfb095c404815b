"""Bad msgpack of every kind gets one typed error, with the place, in bounded time (WIRE-1, MODEL-3)."""

from __future__ import annotations

import msgspec
import pytest

from stemmadb.protocol.errors import LimitExceeded, Malformed, StemmaError, UnknownMessage
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.wire.codec import exact
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, read_content
from stemmadb.protocol.wire.codec.peek import Peeked
from stemmadb.protocol.wire.messages.reading import QueryAnswer
from stemmadb.protocol.wire.messages.session import Ok
from wire_raw import COMMIT, QUERY, pairs, query, raw

CODEC = MsgpackCodec()
DEEP = b"\x91" * 10_000 + b"\xc0"


BAD: list[tuple[str, bytes, type[StemmaError], str]] = [
    ("nothing", b"", Malformed, "(message)"),
    ("a byte that begins nothing", b"\xc1", Malformed, "(message)"),
    ("a list", encode([1, 2]), Malformed, "(message)"),
    ("null", encode(None), Malformed, "(message)"),
    ("an empty map", encode({}), Malformed, "type"),
    ("a type that is a number", encode({"type": 5}), Malformed, "type"),
    ("an unknown type", encode({"type": "commits"}), UnknownMessage, ""),
    ("a message of the other direction", encode({"type": "hello"}), UnknownMessage, ""),
    ("bytes behind the message", pairs(*COMMIT) + b"\xc0", Malformed, "(message)"),
    ("a cut message", pairs(*COMMIT)[:-1], Malformed, "(message)"),
    ("a missing field", pairs(*COMMIT[:-1]), Malformed, "content"),
    ("an unknown field", pairs(*COMMIT, ("colour", 1)), Malformed, "colour"),
    ("the reserved field", pairs(*COMMIT, ("channel", 1)), Malformed, "channel"),
    ("a wrong type", pairs(*COMMIT[:3], ("content", "x")), Malformed, "content"),
    ("a wrong type inside", pairs(*QUERY, ("query", {"roots": [{"id": 1}]})), Malformed, "query/roots/0/id"),
    ("a missing field inside", pairs(*QUERY, ("query", {"roots": [{}]})), Malformed, "query/roots/0/id"),
    ("an unknown field inside", pairs(*QUERY, ("query", {"root": []})), Malformed, "query/root"),
    ("a bool for a number", pairs(("type", "ping"), ("id", True)), Malformed, "id"),
    ("a float for a number", pairs(("type", "ping"), ("id", 1.0)), Malformed, "id"),
    ("a text for a number", pairs(("type", "ping"), ("id", "1")), Malformed, "id"),
    ("a request number of 0", pairs(("type", "ping"), ("id", 0)), Malformed, "id"),
    ("a request number beyond 53 bits", pairs(("type", "ping"), ("id", 2**53)), Malformed, "id"),
    ("a local of 0", pairs(COMMIT[0], ("local", 0), *COMMIT[2:]), Malformed, "local"),
    ("a local beyond 63 bits", pairs(COMMIT[0], ("local", 2**64 - 1), *COMMIT[2:]), Malformed, "local"),
    ("a negative version", pairs(("type", "acl"), ("id", 1), ("version", -1)), Malformed, "version"),
    ("a nonce too short", pairs(*COMMIT[:2], ("nonce", bytes(15)), COMMIT[3]), Malformed, "nonce"),
    ("a nonce too long", pairs(*COMMIT[:2], ("nonce", bytes(17)), COMMIT[3]), Malformed, "nonce"),
    ("a hash too short", pairs(("type", "blob.end"), ("id", 1), ("blob", bytes(31))), Malformed, "blob"),
    (
        "a strategy nobody knows",
        pairs(("type", "merge"), ("id", 1), ("operation", bytes(16)), ("source", "a"), ("strategy", "best")),
        Malformed,
        "strategy",
    ),
    ("a key twice", pairs(*COMMIT, COMMIT[1]), Malformed, "byte"),
    ("the type twice", pairs(("type", "ping"), ("type", "ping"), ("id", 1)), Malformed, "byte"),
    ("a key twice in a query", pairs(*QUERY, ("query", raw(pairs(("roots", ()), ("roots", ()))))), Malformed, "byte"),
    ("a key twice in a schema", query(raw(pairs(("type", "null"), ("type", "object")))), Malformed, "byte"),
    ("a key that is a number", pairs(*COMMIT, (1, 1)), Malformed, ""),
    ("a key that is a number in a schema", query({"a": {1: 2}}), Malformed, "query/roots/0/schema/a"),
    ("a key that is bytes in a schema", query({"a": {b"x": 2}}), Malformed, "query/roots/0/schema/a"),
    ("a key that is not Unicode", pairs(*COMMIT, (raw(b"\xa1\xff"), 1)), Malformed, "(message)"),
    ("a text that is not Unicode", pairs(("type", "blame"), ("id", 1), ("entity", raw(b"\xa1\xff"))), Malformed, ""),
    (
        "a surrogate in a text",
        pairs(("type", "blame"), ("id", 1), ("entity", raw(b"\xa3\xed\xa0\x80"))),
        Malformed,
        "",
    ),
    ("an extension for a field", pairs(*COMMIT[:3], ("content", raw(b"\xd4\x05\x00"))), Malformed, "content"),
    ("an extension in a schema", query({"const": msgspec.msgpack.Ext(5, b"x")}), Malformed, "schema/const"),
    ("a timestamp in a schema", query(raw(b"\x81\xa1a\xd6\xff" + bytes(4))), Malformed, "schema/a"),
    ("binary in a schema", query({"const": b"x"}), Malformed, "schema/const"),
    ("a NaN in a schema", query({"const": float("nan")}), Malformed, "schema/const"),
    ("an infinity in a schema", query({"const": float("-inf")}), Malformed, "schema/const"),
    ("an integer beyond 64 bits in a schema", query({"const": 2**64 - 1}), Malformed, "schema/const"),
    ("a schema nested 65 deep", query({"a": raw(b"\x91" * 64 + b"\xc0")}), Malformed, "schema/a/0"),
    ("a schema nested 10,000 deep", query({"a": raw(DEEP)}), Malformed, ""),
    ("an unknown field nested 10,000 deep", pairs(*COMMIT, ("x", raw(DEEP))), Malformed, "x"),
    ("a field nested 10,000 deep", pairs(*COMMIT[:3], ("content", raw(DEEP))), Malformed, "content"),
    ("a message nested 10,000 deep", DEEP, Malformed, "(message)"),
    ("a map that declares 4 billion fields", b"\xdf\xff\xff\xff\xff", Malformed, "(message)"),
    (
        "a list that declares 4 billion items",
        pairs(("type", "session.open"), ("held", raw(b"\xdd\xff\xff\xff\xff"))),
        Malformed,
        "",
    ),
    ("a text that declares 4 billion bytes", pairs(("type", raw(b"\xdb\xff\xff\xff\xff"))), Malformed, ""),
    (
        "bytes that declare 4 billion bytes",
        pairs(*COMMIT[:3], ("content", raw(b"\xc6\xff\xff\xff\xff"))),
        Malformed,
        "",
    ),
]


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(("data", "error", "place"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_message_gets_one_typed_error_with_its_place(data: bytes, error: type[StemmaError], place: str) -> None:
    with pytest.raises(error) as caught:
        CODEC.read_client(data)
    assert type(caught.value) is error
    assert place in str(caught.value.facts.get("path", ""))
    caught.value.message.encode()


SERVER_BAD: list[tuple[str, bytes, type[StemmaError]]] = [
    ("a message of the other direction", encode({"type": "ping", "id": 1}), UnknownMessage),
    ("details with binary", encode({"type": "error", "code": "x", "message": "", "details": {"a": b""}}), Malformed),
    (
        "details nested deep",
        pairs(("type", "goodbye"), ("code", "x"), ("message", ""), ("details", {"a": raw(b"\x91" * 70 + b"\xc0")})),
        Malformed,
    ),
    (
        "details of a verdict",
        encode(
            {
                "type": "sync",
                "from": 1,
                "to": 1,
                "hash": bytes(32),
                "verdicts": [
                    {"verdict": "rejected", "local": 1, "code": "x", "message": "", "details": {"a": float("inf")}}
                ],
            }
        ),
        Malformed,
    ),
    (
        "details of an ended watch",
        encode(
            {
                "type": "sync",
                "from": 1,
                "to": 1,
                "hash": bytes(32),
                "ended": [{"watch": 1, "code": "x", "message": "", "details": {"a": {1: 1}}}],
            }
        ),
        Malformed,
    ),
    (
        "an unknown verdict",
        encode(
            {"type": "sync", "from": 1, "to": 1, "hash": bytes(32), "verdicts": [{"verdict": "maybe", "local": 1}]}
        ),
        Malformed,
    ),
    ("a key twice", pairs(("type", "goodbye"), ("code", "x"), ("code", "y"), ("message", "")), Malformed),
    ("a result nested 10,000 deep", pairs(("type", "ok"), ("id", 1), ("result", raw(DEEP))), Malformed),
    ("too much", bytes(16 * 1024 * 1024 + 1), LimitExceeded),
]


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(("data", "error"), [case[1:] for case in SERVER_BAD], ids=[case[0] for case in SERVER_BAD])
def test_a_client_refuses_a_bad_message_of_its_server(data: bytes, error: type[StemmaError]) -> None:
    with pytest.raises(error) as caught:
        CODEC.read_server(data)
    assert type(caught.value) is error


OPERATION = (("op", "set"), ("id", "urn:a:1"), ("body", b"\x01"))
CONTENT_BAD: list[tuple[str, bytes, type[StemmaError], str]] = [
    ("nothing", b"", Malformed, "content"),
    ("a list", encode([]), Malformed, "content"),
    ("no operations", encode({"reads": []}), Malformed, "content/operations"),
    ("an unknown field", encode({"operations": [], "x": 1}), Malformed, "content/x"),
    ("an unknown operation", encode({"operations": [{"op": "put", "id": "urn:a:1"}]}), Malformed, "operations/0/op"),
    ("a body that is not bytes", encode({"operations": [{"op": "set", "id": "a", "body": {}}]}), Malformed, "0/body"),
    ("a read without a version", encode({"operations": [], "reads": [{"id": "a"}]}), Malformed, "reads/0/version"),
    ("a key twice", pairs(("operations", raw(b"\x91" + pairs(*OPERATION, OPERATION[2])))), Malformed, "byte"),
    ("bytes behind it", encode({"operations": []}) + b"\x00", Malformed, "content"),
    ("10,000 deep", pairs(("operations", raw(DEEP))), Malformed, "content"),
    ("text that is not Unicode", pairs(("operations", ()), ("branch", raw(b"\xa1\xff"))), Malformed, "content"),
]


@pytest.mark.rule("WIRE-1", "MODEL-4")
@pytest.mark.parametrize(("data", "error", "place"), [c[1:] for c in CONTENT_BAD], ids=[c[0] for c in CONTENT_BAD])
def test_a_bad_content_gets_one_typed_error_with_its_place(data: bytes, error: type[StemmaError], place: str) -> None:
    with pytest.raises(error) as caught:
        read_content(data)
    assert place in caught.value.facts["path"]


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("result", [b"\xc0", encode({"version": "x"}), pairs(("version", 1), ("version", 1)), DEEP])
def test_a_result_of_the_wrong_shape_is_malformed(result: bytes) -> None:
    with pytest.raises(Malformed):
        CODEC.read_result(Ok(id=1, result=msgspec.Raw(result)), QueryAnswer)


@pytest.mark.rule("WIRE-1")
def test_fields_in_another_order_and_in_longer_forms_are_accepted() -> None:
    usual = CODEC.read_client(pairs(*COMMIT))
    turned = pairs(*reversed(COMMIT), ("session", None))
    longer = b"\xde\x00\x04" + pairs(COMMIT[0], ("local", raw(b"\xcf" + bytes(7) + b"\x01")), *COMMIT[2:])[1:]
    wide = b"\xdf\x00\x00\x00\x04" + pairs(*COMMIT)[1:].replace(encode("local"), b"\xd9\x05local")
    assert CODEC.read_client(turned) == CODEC.read_client(longer) == CODEC.read_client(wide) == usual


EXACT_BAD: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("an extension", b"\xd4\x01\x00"),
    ("a byte that begins nothing", b"\xc1"),
    ("a cut map", b"\x82\xa1a\x01"),
    ("a cut text", b"\xa2a"),
    ("a list that declares more than there is", b"\xdd\xff\xff\xff\xff\x01"),
    ("two items", b"\x01\x02"),
    ("a key that is a list", b"\x81\x90\x01"),
    ("a key that is bytes", b"\x81\xc4\x01x\x01"),
    ("a key twice in two forms", b"\x82\xa1a\x01\xd9\x01a\x02"),
    ("a key twice inside a list", b"\x92\x01\x82\xa1a\x01\xa1a\x02"),
    ("too deep", b"\x91" * 9 + b"\x01"),
]


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize("data", [case[1] for case in EXACT_BAD], ids=[case[0] for case in EXACT_BAD])
def test_the_exact_look_refuses(data: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        exact.check(data, depth_max=8)
    assert caught.value.facts["path"].startswith("byte")


@pytest.mark.rule("MODEL-3")
def test_the_exact_look_passes_every_kind_of_item_once() -> None:
    kinds = [
        b"\xc0", b"\xc2", b"\xc3", b"\x05", b"\xff",
        b"\xcc\x80", b"\xcd\x01\x00", b"\xce" + bytes(4), b"\xcf" + bytes(8),
        b"\xd0\x80", b"\xd1\x80\x00", b"\xd2" + bytes(4), b"\xd3" + bytes(8), b"\xca" + bytes(4), b"\xcb" + bytes(8),
        b"\xa0", b"\xa1x", b"\xd9\x01x", b"\xda\x00\x01x", b"\xdb\x00\x00\x00\x01x",
        b"\xc4\x00", b"\xc5\x00\x01x", b"\xc6\x00\x00\x00\x01x",
        b"\x90", b"\x80", b"\xdc\x00\x01\x01", b"\xdd\x00\x00\x00\x00", b"\xdf\x00\x00\x00\x00",
        b"\xde\x00\x01\xa1a\x91\x81\xa1a\x01",
    ]  # fmt: skip
    exact.check(b"\xdc" + len(kinds).to_bytes(2, "big") + b"".join(kinds), depth_max=8)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(
    ("data", "peeked"),
    [
        (pairs(("type", "ping"), ("id", 7), ("x", 1)), Peeked("ping", 7, None)),
        (pairs(("type", "commit"), ("local", 9)), Peeked("commit", None, 9)),
        (pairs(("type", "commit"), ("local", 9), ("session", bytes(16))), Peeked("commit", None, 9, bytes(16))),
        (pairs(("type", "commit"), ("local", 0), ("id", 2**53), ("session", b"x")), Peeked("commit")),
        (pairs(("type", 1), ("id", "x"), ("local", 1.5)), Peeked()),
        (pairs(("type", "t" * 1_000)), Peeked()),
        (pairs(("type", "ping"), ("x", raw(DEEP))), Peeked()),
        (b"", Peeked()),
        (b"\xa1\xff", Peeked()),
    ],
)
def test_what_can_be_told_of_a_message_that_cannot_be_read(data: bytes, peeked: Peeked) -> None:
    assert CODEC.peek(data) == peeked
