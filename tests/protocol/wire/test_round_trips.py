"""Every message and every answer comes back as it was sent, in both encodings."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wire_samples
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.commit.request import Content, Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import messages
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import (
    Codec,
    MsgpackCodec,
    encode_content,
    read_content,
)
from stemmadb.protocol.wire.messages.base import Message
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.session import Ok
from stemmadb.protocol.wire.messages.sync import CommitItem, FactItem, Sync, joined

WIDE = Limits(page_max=2**63 - 1, blob_bytes_max=2**63 - 1)  # every message the types allow
CODECS: list[Codec] = [MsgpackCodec(WIDE), JsonCodec(WIDE)]
SERVER_SENDS = [cls for cls in messages.SERVER_MESSAGES if cls is not Ok]
steady = settings(derandomize=True, deadline=None, max_examples=20)


def _name(cls: Any) -> str:
    return str(cls.__name__)


@pytest.mark.rule("WIRE-1", "MODEL-4")
@pytest.mark.parametrize("cls", messages.CLIENT_MESSAGES, ids=_name)
def test_what_a_client_sends_is_what_a_server_reads(cls: type[Message]) -> None:
    @given(wire_samples.of(cls))
    @steady
    def run(message: Any) -> None:
        for codec in CODECS:
            assert codec.read_client(codec.encode(message)) == message

    run()


@pytest.mark.rule("WIRE-1", "SYNC-1")
@pytest.mark.parametrize("cls", SERVER_SENDS, ids=_name)
def test_what_a_server_sends_is_what_a_client_reads(cls: type[Message]) -> None:
    @given(wire_samples.of(cls))
    @steady
    def run(message: Any) -> None:
        for codec in CODECS:
            assert codec.read_server(codec.encode(message)) == message

    run()


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("cls", messages.ANSWERS, ids=_name)
def test_an_answer_is_read_as_the_type_its_request_names(cls: Any) -> None:
    @given(wire_samples.of(cls), st.integers(1, 2**53 - 1))
    @steady
    def run(result: Any, id_: int) -> None:
        for codec in CODECS:
            ok = codec.read_server(codec.encode_answer(id_, result))
            assert isinstance(ok, Ok)
            assert (ok.id, codec.read_result(ok, cls)) == (id_, result)

    run()


@pytest.mark.rule("MODEL-4")
@given(wire_samples.of(Content))
@steady
def test_the_content_of_a_commit_is_the_same_bytes_whichever_way_it_came(content: Content) -> None:
    made = encode_content(content)
    assert read_content(made) == content
    message = CommitMessage(local=Local(1), nonce=bytes(16), content=made)
    read = JsonCodec().read_client(JsonCodec().encode(message))
    assert isinstance(read, CommitMessage)
    assert read.content == made


@pytest.mark.rule("MODEL-4")
def test_a_null_that_is_set_is_not_a_body_that_is_missing() -> None:
    null = Operation(op="set", id=EntityId("urn:a:1"), body=encode(None))
    gone = Operation(op="delete", id=EntityId("urn:a:1"))
    message = CommitMessage(local=Local(1), nonce=bytes(16), content=encode_content(Content(operations=(null, gone))))
    text = JsonCodec().encode(message)
    written = json.loads(text)["content"]["operations"]
    assert written[0]["body"] is None
    assert "body" not in written[1]
    read = JsonCodec().read_client(text)
    assert isinstance(read, CommitMessage)
    assert read_content(read.content).operations == (null, gone)


FRAME = Sync(from_=Version(1), to=Version(2), hash=Hash(bytes(32)))


FACTS = tuple(
    FactItem(index=index, id=EntityId("urn:a:1"), kind="delete", parent=Hash(bytes(32))) for index in range(0, 12, 2)
)
COMMIT = CommitItem(
    version=Version(2), author=Did("did:x"), time=TimeMs(1), note=encode({"message": "large"}), facts=FACTS
)


def _pieces(commit: CommitItem, cuts: list[int]) -> list[CommitItem]:
    edges = [0, *sorted(cuts), len(commit.facts)]
    pieces = [commit.facts[start:end] for start, end in pairwise(edges)]
    return [
        msgspec.structs.replace(commit, facts=facts, note=None if index else commit.note)
        for index, facts in enumerate(pieces)
    ]


@pytest.mark.rule("SYNC-1")
@given(st.lists(st.integers(0, 6), max_size=4), st.lists(st.integers(0, 6), max_size=3), st.integers(0, 9))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_a_commit_split_over_items_and_parts_is_one_commit_again(
    cuts: list[int], more_cuts: list[int], split: int
) -> None:
    later = msgspec.structs.replace(COMMIT, version=Version(3), note=None)
    items = [*_pieces(COMMIT, cuts), *_pieces(later, more_cuts)]
    parts = [
        msgspec.structs.replace(FRAME, commits=tuple(items[:split]), more=True),
        msgspec.structs.replace(FRAME, commits=tuple(items[split:])),
    ]
    whole = msgspec.structs.replace(FRAME, commits=(COMMIT, later))
    assert joined(parts) == whole
    assert joined([msgspec.structs.replace(FRAME, commits=tuple(items))]) == whole


@pytest.mark.rule("SYNC-1")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"note": encode(1)}, "not of one commit"),
        ({"author": Did("did:y")}, "not of one commit"),
        ({"facts": FACTS[2:]}, "continue by index"),
        ({"facts": FACTS[:0:-1]}, "continue by index"),
    ],
)
def test_an_item_that_does_not_go_on_with_its_commit_is_malformed(change: dict[str, Any], why: str) -> None:
    first, last = _pieces(COMMIT, [3])
    frame = msgspec.structs.replace(FRAME, commits=(first, msgspec.structs.replace(last, **change)))
    with pytest.raises(Malformed, match=why):
        joined([frame])


@pytest.mark.rule("WIRE-1")
def test_text_in_json_and_msgpack_has_no_defaults_written_out() -> None:
    assert JsonCodec().encode(FRAME) == (
        '{"type":"sync","from":1,"to":2,"hash":"b3:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}'
    )
    assert msgspec.msgpack.decode(MsgpackCodec().encode(FRAME)) == {
        "type": "sync",
        "from": 1,
        "to": 2,
        "hash": bytes(32),
    }


@pytest.mark.rule("WIRE-1")
def test_a_branch_named_as_the_default_may_be_written_out() -> None:
    message = {"type": "history", "id": 1, "entity": "urn:a:1", "branch": "main", "order": "newest"}
    read = MsgpackCodec().read_client(encode(message))
    assert getattr(read, "branch", None) == BranchName("main")
