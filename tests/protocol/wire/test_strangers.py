"""What an unknown peer can make a server do before its signature is checked: next to nothing (WIRE-2)."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from stemmadb.protocol import errors
from stemmadb.protocol.errors import LimitExceeded, Malformed, OutOfOrder, Unauthenticated
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec import untyped
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import SessionPosition
from stemmadb.protocol.wire.messages.session import HeldWatch, SessionOpen
from stemmadb.protocol.wire.messages.sync import Sync
from wire_peers import ALICE, BOB, Peers, sent

CODEC = MsgpackCodec()
NONCE = "AAAAAAAAAAAAAAAAAAAAAA=="


def left(peers: Peers, data: Any) -> errors.StemmaError:
    [event] = peers.server.receive(data)
    assert isinstance(event, Closed)
    return event.error


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize(
    ("subprotocol", "data"),
    [
        (version.MSGPACK, encode({"type": "commit", "local": 1})),
        (version.MSGPACK, encode({"type": "merge", "id": 1, "resolutions": [{"id": ""}] * 100})),
        (version.MSGPACK, encode({"type": "dance"})),
        (version.JSON, f'{{"type":"commit","local":1,"nonce":"{NONCE}","content":{{"operations":[NaN]}}}}'),
        (version.JSON, '{"type":"session.close","x":[' + "[" * 5_000),
    ],
)
def test_what_a_stranger_may_not_send_is_not_read(
    subprotocol: version.Subprotocol, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = Peers(subprotocol).greeted()
    monkeypatch.setattr(peers.server._codec, "read_client", None)
    error = left(peers, data)
    assert isinstance(error, OutOfOrder)
    assert "session.open" in error.message


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_a_stranger_sends_no_more_than_an_opening_may_have(
    subprotocol: version.Subprotocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(Peers(subprotocol).greeted().opening())
    peers = Peers(subprotocol, limits=Limits(schema_bytes_max=size)).greeted()
    assert isinstance(peers.server.receive(peers.opening())[0], SessionOpen)
    peers = Peers(subprotocol, limits=Limits(schema_bytes_max=size - 1)).greeted()
    monkeypatch.setattr(peers.server._codec, "read_client", None)
    monkeypatch.setattr(peers.server._codec, "peek", None)
    error = left(peers, peers.opening())
    assert isinstance(error, LimitExceeded)
    assert error.facts["bound"] == "schema_bytes_max"


def opening(peers: Peers, schema: Any, key: Any = ALICE) -> bytes:
    watch = HeldWatch(watch=1, query=Query(roots=(Root("*", schema=True),)))
    message = CODEC.read_client(peers.opening(key, SessionPosition(watches=(watch,))))
    plain = msgspec.msgpack.decode(CODEC.encode(message))
    plain["watches"][0]["query"]["roots"][0]["schema"] = schema
    return encode(plain)


@pytest.mark.rule("WIRE-2")
def test_the_schemas_of_a_stranger_are_looked_at_once_its_signature_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = Peers().greeted()
    error = left(peers, opening(peers, {"const": math.nan}))
    assert isinstance(error, Malformed)
    assert error.facts["path"] == "watches/0/query/roots/0/schema/const"
    peers = Peers().greeted()
    [event] = peers.server.receive(opening(peers, {"const": 1}))
    assert isinstance(event, SessionOpen)
    monkeypatch.setattr(untyped, "check", None)
    peers = Peers().greeted()
    assert isinstance(left(peers, opening(peers, {"const": math.nan}, BOB)), Unauthenticated)


@pytest.mark.rule("SYNC-1")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_the_hash_of_a_client_that_holds_nothing_is_not_looked_at(subprotocol: version.Subprotocol) -> None:
    peers = Peers(subprotocol).opened(SessionPosition(hash=Hash(b"f" * 32)))
    frame = Sync(from_=Version(0), to=Version(0), hash=Hash(bytes(32)))
    assert peers.client.receive(sent(peers.server.send(frame))) == [frame]
