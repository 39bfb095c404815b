"""A message that is too large is answered by name, without being read."""

from __future__ import annotations

import gc
import sys

import msgspec
import pytest

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.peek import Peeked, peek_binary, peek_large_binary
from stemmadb.protocol.wire.connection.base import ConnectionState
from stemmadb.protocol.wire.connection.server_events import RefusedMessage
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol
from wire_peers import Peers

LIMITS = Limits(message_bytes_max=60_000, part_bytes_max=5_000, value_bytes_max=5_000, blob_chunk_bytes_max=5_000)
SUBPROTOCOLS = (MSGPACK, JSON)


def encoded(message: dict[str, object], subprotocol: Subprotocol) -> bytes | str:
    return msgspec.msgpack.encode(message) if subprotocol == MSGPACK else msgspec.json.encode(message).decode()


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("subprotocol", SUBPROTOCOLS)
@pytest.mark.parametrize(
    ("named", "id_", "local"),
    [({"type": "commit", "local": 70_000}, None, 70_000), ({"type": "ping", "id": 7}, 7, None), ({}, None, None)],
)
def test_a_message_that_is_too_large_is_refused_by_name_and_the_session_goes_on(
    subprotocol: Subprotocol, named: dict[str, object], id_: int | None, local: int | None
) -> None:
    peers = Peers(subprotocol, LIMITS).opened()
    (event,) = peers.server.receive(encoded({**named, "content": "x" * 60_001}, subprotocol))
    assert isinstance(event, RefusedMessage)
    assert isinstance(event.error, LimitExceeded)
    assert event.error.facts["bound"] == "message_bytes_max"
    assert (event.id, event.local) == (id_, local)
    assert peers.server.state is ConnectionState.OPEN


@pytest.mark.parametrize("subprotocol", SUBPROTOCOLS)
def test_a_refused_message_does_not_stay_in_memory(subprotocol: Subprotocol) -> None:
    """The error that says why has a traceback, whose frames hold the message."""
    peers = Peers(subprotocol, LIMITS).opened()
    data = encoded({"content": "x" * 60_001}, subprotocol)
    gc.disable()
    try:
        before = sys.getrefcount(data)
        events = peers.server.receive(data)
        assert sys.getrefcount(data) == before
        assert len(events) == 1
    finally:
        gc.enable()


@pytest.mark.parametrize("many", [{}, {f"key{number}": number for number in range(20)}])
@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 256, 65_536, 2**32, 2**53 - 1])
def test_the_first_fields_are_found_as_if_the_message_were_read(number: int, many: dict[str, object]) -> None:
    named = {"type": "commit", "id": number, "local": number, "session": bytes(16), "none": None, "yes": True}
    data = msgspec.msgpack.encode({**named, "text": "x" * 300, "half": 0.5, **many})
    assert peek_large_binary(data) == peek_binary(data)


@pytest.mark.parametrize(
    "data", [b"", b"\x81", b"\xc1", b"\xdf", b"\x82\xa4type", b"\x81\xa2id\xcf", b"\x92\x01\x02"]
)
def test_what_is_no_message_names_nothing(data: bytes) -> None:
    assert peek_large_binary(data) == Peeked()


def test_fields_behind_a_container_are_not_looked_for() -> None:
    data = msgspec.msgpack.encode({"type": "merge", "branches": [1, 2], "id": 7})
    assert peek_large_binary(data) == Peeked("merge")
