"""What can be told of a message that cannot be read, so that its error reaches the commit or request (WIRE-4)."""

from __future__ import annotations

import pytest

from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec import peek
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.peek import Peeked
from stemmadb.protocol.wire.connection.client_side import Unread
from stemmadb.protocol.wire.connection.server_events import RefusedMessage
from wire_peers import Peers

CODEC = JsonCodec()
NONCE = "AAAAAAAAAAAAAAAAAAAAAA=="
DEEP = "[" * 2_000 + "]" * 2_000
BODIES = [
    ("a lone surrogate", '"\\ud800"'),
    ("a key that is a lone surrogate", '{"\\udfff":1}'),
    ("NaN", "NaN"),
    ("1e400", "1e400"),
    ("2,000 levels", DEEP),
    ("5,000 digits", "1" * 5_000),
    ("a raw control character", '"\x01"'),
    ("brackets and quotes in a text", '["]}\\"{[\\\\",NaN]'),
    ("a member of the same name", '{"local":5,"x":NaN}'),
]


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("body", [case[1] for case in BODIES], ids=[case[0] for case in BODIES])
@pytest.mark.parametrize("last", [True, False])
def test_a_commit_whose_json_cannot_be_stored_is_named(body: str, last: bool) -> None:
    content = f'"content":{{"operations":[{{"op":"set","id":"urn:a:1","body":{body}}}]}}'
    name = f'"type":"commit","local" : 9,"nonce":"{NONCE}","session":"{NONCE}"'
    peers = Peers(version.JSON).opened()
    [refused] = peers.server.receive("{" + ",".join((name, content) if last else (content, name)) + "}")
    assert isinstance(refused, RefusedMessage)
    assert (refused.local, refused.session, refused.id) == (9, bytes(16), None)
    [unread] = peers.client.receive(refused.reply)
    assert isinstance(unread, Unread)
    assert (unread.local, unread.session) == (9, bytes(16))


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(
    ("text", "peeked"),
    [
        ('{"type":"ping","id":7,"x":[NaN]}', Peeked("ping", 7, None)),
        ('{"type":"ping","id":7,"x":[1]}', Peeked("ping", 7, None)),
        ('{"type":"ping","id":7,"x":[1]', Peeked("ping", 7, None)),
        ('{"type":"ping","id":99999999999999999999,"x":NaN}', Peeked("ping")),
        ('{"type":"commit","local":9,"content":{}}', Peeked("commit", None, 9)),
        ('{"type":"commit","local":9,"session":"' + NONCE + '"}', Peeked("commit", None, 9, bytes(16))),
        ('{"a":"type","x":{"type":"ping","id":3},"b":NaN}', Peeked()),
        ('[{"type":"ping","id":3},NaN]', Peeked()),
        ('{"type":"' + "x" * 300 + '","id":2,"x":NaN}', Peeked(None, 2)),
        ('{"type":"\ud800","id":2}', Peeked("?", 2)),
        ('{"type":1,"id":"x"}', Peeked()),
        ("\ud800", Peeked()),
        ('{"type', Peeked()),
        ("", Peeked()),
    ],
)
def test_what_can_be_told_of_a_message_that_cannot_be_read(text: str, peeked: Peeked) -> None:
    assert CODEC.peek(text) == peeked


@pytest.mark.rule("WIRE-4")
def test_looking_for_a_name_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peek, "_TOKENS_MAX", 11)
    assert CODEC.peek('{"x":[[[[[NaN]]]]],"type":"ping","id":1}') == Peeked()
    assert CODEC.peek('{"x":[[[[NaN]]]],"type":"ping","id":1}') == Peeked("ping")


@pytest.mark.rule("WIRE-4")
def test_a_large_commit_that_is_bad_is_not_taken_for_another_message() -> None:
    body = "x" * CODEC.limits.schema_bytes_max + "\\ud800"
    content = f'{{"operations":[{{"op":"set","id":"urn:a:1","body":"{body}"}}]}}'
    [refused] = (
        Peers(version.JSON)
        .opened()
        .server.receive(f'{{"type":"commit","local":9,"nonce":"{NONCE}","content":{content}}}')
    )
    assert isinstance(refused, RefusedMessage)
    assert (refused.local, refused.error.code) == (9, "invalid_value")
