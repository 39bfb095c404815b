"""Requests on the server's end of a connection: one answer each, and bad ones answered as well (WIRE-4)."""

from __future__ import annotations

from typing import Any

import pytest

from stemmadb.protocol.errors import (
    LimitExceeded,
    NotFound,
    OutOfOrder,
    UnknownMessage,
)
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec
from stemmadb.protocol.wire.connection.base import UNANSWERED_MAX, Closed
from stemmadb.protocol.wire.connection.client_side import Unread
from stemmadb.protocol.wire.connection.server_events import RefusedMessage
from stemmadb.protocol.wire.messages.base import Done
from stemmadb.protocol.wire.messages.session import ErrorMessage, Ping, Pong
from wire_peers import Peers, sent

CODEC = MsgpackCodec()


def ping(id_: int = 1) -> bytes:
    return CODEC.encode(Ping(id=id_))


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("subprotocol", version.SUBPROTOCOLS)
def test_a_request_gets_exactly_one_answer(subprotocol: version.Subprotocol) -> None:
    peers = Peers(subprotocol).opened()
    [request] = peers.server.receive(peers.client.request(Ping(id=7)))
    assert request == Ping(id=7)
    [answered] = peers.client.receive(sent(peers.server.answer(7, Pong(version=Version(3)))))
    assert getattr(answered, "result", None) == Pong(version=Version(3))
    with pytest.raises(AssertionError):
        peers.server.answer(7, Pong(version=Version(3)))
    with pytest.raises(AssertionError):
        peers.server.fail(7, NotFound(id="urn:a:1", branch="main"))


@pytest.mark.rule("WIRE-4")
def test_an_answer_is_of_the_type_the_request_names() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(7))
    with pytest.raises(AssertionError):
        peers.server.answer(7, Done())
    peers.server.answer(7, Pong(version=Version(3)))


@pytest.mark.rule("WIRE-4")
def test_an_answer_that_is_too_large_leaves_the_request_to_be_answered() -> None:
    peers = Peers(limits=Limits(message_bytes_max=1_200)).opened()
    peers.server.receive(CODEC.encode(Ping(id=7)))
    peers.server._codec.limits = Limits(message_bytes_max=5)
    with pytest.raises(LimitExceeded) as caught:
        peers.server.answer(7, Pong(version=Version(3)))
    peers.server._codec.limits = Limits()
    assert peers.server.fail(7, caught.value)


@pytest.mark.rule("WIRE-4")
def test_the_number_of_a_request_is_free_again_once_it_is_answered() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(7))
    peers.server.answer(7, Pong(version=Version(1)))
    assert peers.server.receive(ping(7)) == [Ping(id=7)]


@pytest.mark.rule("WIRE-4")
def test_a_number_that_waits_for_its_answer_is_not_used_twice() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(7))
    [event] = peers.server.receive(ping(7))
    assert isinstance(event, Closed)
    assert isinstance(event.error, OutOfOrder)


@pytest.mark.rule("WIRE-4")
def test_requests_that_wait_are_bounded() -> None:
    peers = Peers().opened()
    for number in range(1, UNANSWERED_MAX + 1):
        assert peers.server.receive(ping(number)) == [Ping(id=number)]
    [refused] = peers.server.receive(ping(5_000))
    assert isinstance(refused, RefusedMessage)
    assert (refused.id, type(refused.error)) == (5_000, LimitExceeded)
    peers.server.answer(1, Pong(version=Version(1)))
    assert peers.server.receive(ping(5_000)) == [Ping(id=5_000)]


def told(refused: Any) -> ErrorMessage:
    assert isinstance(refused, RefusedMessage)
    reply = CODEC.read_server(refused.reply)
    assert isinstance(reply, ErrorMessage)
    assert reply.code == refused.error.code
    return reply


@pytest.mark.rule("WIRE-4")
def test_a_bad_message_in_an_open_session_is_answered_and_the_session_goes_on() -> None:
    peers = Peers().opened()
    [refused] = peers.server.receive(encode({"type": "acl", "id": 5, "version": -1}))
    reply = told(refused)
    assert (reply.id, reply.local, reply.code) == (5, None, "malformed")
    [refused] = peers.server.receive(encode({"type": "dance", "id": 6}))
    assert (told(refused).id, told(refused).code) == (6, UnknownMessage.code)
    [refused] = peers.server.receive(b"\xc1")
    assert (told(refused).id, told(refused).local) == (None, None)
    assert peers.server.receive(ping()) == [Ping(id=1)]


@pytest.mark.rule("WIRE-4")
def test_a_bad_message_does_not_answer_the_request_whose_number_it_took() -> None:
    peers = Peers().opened()
    peers.server.receive(ping(5))
    [refused] = peers.server.receive(encode({"type": "acl", "id": 5, "version": -1}))
    assert told(refused).id is None


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(("local", "said"), [(9, 9), (2**63 - 1, 2**63 - 1), (0, None), (2**63, None), ("x", None)])
def test_a_commit_that_cannot_be_read_is_named(local: Any, said: int | None) -> None:
    peers = Peers().opened()
    [refused] = peers.server.receive(encode({"type": "commit", "local": local}))
    assert (told(refused).local, told(refused).id) == (said, None)


@pytest.mark.rule("WIRE-4")
def test_a_commit_of_an_older_session_that_cannot_be_read_is_named_with_it() -> None:
    peers = Peers().opened()
    [refused] = peers.server.receive(encode({"type": "commit", "local": 4, "session": b"o" * 16}))
    assert (told(refused).local, told(refused).session) == (4, b"o" * 16)
    assert isinstance(refused, RefusedMessage)
    [unread] = peers.client.receive(refused.reply)
    assert isinstance(unread, Unread)
    assert (unread.local, unread.session) == (4, b"o" * 16)


@pytest.mark.rule("WIRE-4")
def test_a_commit_whose_json_content_is_bad_is_named() -> None:
    peers = Peers(version.JSON).opened()
    text = '{"type":"commit","local":4,"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","content":{"operations":[{"op":"x"}]}}'
    [refused] = peers.server.receive(text)
    assert isinstance(refused, RefusedMessage)
    assert refused.local == 4
    [unread] = peers.client.receive(refused.reply)
    assert getattr(unread, "local", None) == 4
