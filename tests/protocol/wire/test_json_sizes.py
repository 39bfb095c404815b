"""What can be stored can be sent on both subprotocols, whatever JSON makes of its size (WIRE-1, SYNC-1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wire_samples
from stemmadb.protocol.errors import LimitExceeded, StemmaError
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Hash, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec.json_codec import JSON_SWELLS, JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, OkEnvelope
from stemmadb.protocol.wire.messages import SERVER_MESSAGES
from stemmadb.protocol.wire.messages.reading import QueriedEntity, QueryAnswer
from stemmadb.protocol.wire.messages.session import ErrorMessage, Ok
from stemmadb.protocol.wire.messages.sync import Sync
from wire_peers import Peers

HASH = Hash(bytes(32))


def answer(value: Any) -> QueryAnswer:
    entity = QueriedEntity(id=EntityId("urn:a:1"), version=Version(1), hash=HASH, body=encode(value))
    return QueryAnswer(version=Version(1), entities=(entity,))


@pytest.mark.rule("WIRE-1", "SYNC-1")
@pytest.mark.parametrize("value", ["\x01" * 10_000, [False] * 10_000, ["\x01"] * 5_000, {"\x1f" * 10_000: None}])
def test_what_fits_in_msgpack_can_be_sent_as_json(value: Any) -> None:
    size = len(encode(OkEnvelope(id=1, result=answer(value))))
    codec = JsonCodec(Limits(message_bytes_max=size))
    text = codec.encode_answer(1, answer(value))
    assert size * 3 < len(text) <= size * JSON_SWELLS
    ok = codec.read_server(text)
    assert isinstance(ok, Ok)
    assert codec.read_result(ok, QueryAnswer) == answer(value)
    with pytest.raises(LimitExceeded, match="message_bytes_max"):
        JsonCodec(Limits(message_bytes_max=size - 1)).encode_answer(1, answer(value))


@pytest.mark.rule("WIRE-1")
def test_a_message_of_a_server_is_bounded_by_its_msgpack() -> None:
    message = ErrorMessage(id=1, code="x", message="\x01" * 1_000)
    size = len(MsgpackCodec().encode(message))
    codec = JsonCodec(Limits(message_bytes_max=size))
    assert codec.read_server(codec.encode(message)) == message
    with pytest.raises(LimitExceeded):
        JsonCodec(Limits(message_bytes_max=size - 1)).encode(message)


@pytest.mark.rule("WIRE-1")
@given(st.sampled_from([cls for cls in SERVER_MESSAGES if cls is not Ok]).flatmap(wire_samples.of))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_no_message_grows_more_than_sixfold(message: Any) -> None:
    assert len(JsonCodec().encode(message).encode()) <= JSON_SWELLS * len(MsgpackCodec().encode(message))


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize("filling", [" ", "ä"])
def test_a_client_reads_no_more_than_that(filling: str) -> None:
    codec = JsonCodec(Limits(message_bytes_max=100))
    text = codec.encode(Sync(from_=Version(0), to=Version(0), hash=HASH))
    assert isinstance(codec.read_server(text + " " * (600 - len(text))), Sync)
    with pytest.raises(StemmaError) as caught:
        codec.read_server(text + filling * (601 - len(text)))
    assert caught.value.facts == {
        "bound": "message_bytes_max",
        "maximum": 600,
        "actual": caught.value.facts["actual"],
    }


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize("depth_max", [3, 70])
def test_a_json_body_is_as_deep_as_the_server_allows(depth_max: int) -> None:
    server = Peers(version.JSON, Limits(depth_max=depth_max)).opened().server
    for levels, local in ((depth_max + 3, None), (depth_max + 4, 1)):
        [event] = server.receive(
            '{"type":"commit","local":1,"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","content":{"operations":['
            f'{{"op":"set","id":"urn:a:1","body":{"[" * levels + "]" * levels}}}]}}}}'
        )
        assert getattr(event, "local", None) == 1
        assert (getattr(event, "error", None) is None) is (local is None)


@pytest.mark.rule("MODEL-3")
def test_what_is_stored_is_sent_whatever_the_bounds_are_now() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert "[" * 100 in JsonCodec(Limits(depth_max=3)).encode_answer(1, answer(deep))
