"""The names of the two encodings and the address of a space (WIRE-1)."""

from __future__ import annotations

import pytest

from stemmadb.protocol.errors import InvalidDid, Malformed
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec
from stemmadb.protocol.wire.codec.subprotocols import codec_for
from stemmadb.protocol.wire.connection import announced_limits

SPACE = Did("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp")


@pytest.mark.rule("WIRE-1")
def test_a_space_has_one_address() -> None:
    assert version.space_path(SPACE) == f"/v1/spaces/{SPACE}"
    assert version.read_space_path(version.space_path(SPACE)) == SPACE
    assert version.read_space_path(version.space_path(SPACE).replace(":", "%3A")) == SPACE
    assert version.read_space_path(version.space_path(SPACE).replace(":", "%3a")) == SPACE


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", Malformed),
        ("/", Malformed),
        ("/v2/spaces/" + SPACE, Malformed),
        ("/v1/spaces/", InvalidDid),
        ("/v1/spaces/todo", InvalidDid),
        (f"/v1/spaces/{SPACE}/", InvalidDid),
        (f"/v1/spaces/{SPACE}?x=1", InvalidDid),
    ],
)
def test_another_address_is_refused(path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        version.read_space_path(path)


@pytest.mark.rule("WIRE-1")
def test_the_binary_encoding_is_chosen_where_both_are_offered() -> None:
    assert version.choose(["chat", version.JSON, version.MSGPACK]) == version.MSGPACK
    assert version.choose([version.JSON]) == version.JSON
    assert version.choose(["stemma.v2.msgpack"]) is None


@pytest.mark.rule("WIRE-1")
def test_each_name_has_its_codec() -> None:
    assert isinstance(codec_for(version.MSGPACK), MsgpackCodec)
    assert isinstance(codec_for(version.JSON), JsonCodec)


@pytest.mark.rule("WIRE-2")
def test_what_is_announced_is_understood() -> None:
    assert announced_limits.understood(announced_limits.announced(DEFAULTS)) == DEFAULTS
