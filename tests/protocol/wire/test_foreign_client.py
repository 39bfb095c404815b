"""A client written from docs/spec/04-protocol.md alone, with msgpack, an Ed25519 key and BLAKE3, is understood."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from stemmadb.protocol.model.commit import request
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.wire.codec.msgpack_codec import read_content
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, CommitMessage
from stemmadb.protocol.wire.messages.session import SessionOpen
from stemmadb.protocol.wire.messages.sync import CommitItem, FactItem, Sync
from wire_peers import SPACE, Peers, sent

KEY = Ed25519PrivateKey.from_private_bytes(b"f" * 32)
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _did() -> str:
    number = int.from_bytes(b"\xed\x01" + KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw), "big")
    letters = ""
    while number:
        number, digit = divmod(number, 58)
        letters = ALPHABET[digit] + letters
    return "did:key:z" + letters


def _opening(hello: dict[str, Any], session: bytes) -> bytes:
    signed = ["stemma.v1 session.open", hello["server"], hello["challenge"], SPACE, _did(), session]
    message = {
        "signature": KEY.sign(msgpack.packb(signed)), "session": session, "type": "session.open",
        "principal": _did(), "watches": [], "to": 0, "hash": None,
    }  # fmt: skip
    packed: bytes = msgpack.packb(message)
    return packed


@pytest.mark.rule("WIRE-2", "WIRE-6")
def test_it_opens_a_session_and_its_commit_is_read_as_it_was_hashed() -> None:
    server = Peers().server
    hello = msgpack.unpackb(bytes(server.hello()))  # type: ignore[arg-type]
    [opened] = server.receive(_opening(hello, b"s" * 16))
    assert isinstance(opened, SessionOpen)
    body = msgpack.packb({"done": 1.5})
    content = msgpack.packb(
        {"reads": [], "operations": [{"id": "urn:a:1", "blind": True, "body": body, "op": "set"}]}
    )
    message = {"type": "commit", "content": content, "nonce": b"n" * 16, "local": 1}
    [commit] = server.receive(msgpack.packb(message))
    assert isinstance(commit, CommitMessage)
    assert read_content(commit.content).operations[0].body == body
    mine = blake3(msgpack.packb(["stemma.v1 request", b"n" * 16, content])).digest()
    assert request.digest_request(commit.nonce, commit.content) == mine


@pytest.mark.rule("SYNC-2", "FACT-2", "WIRE-6")
def test_it_reads_a_frame_and_computes_the_hash_of_a_fact() -> None:
    peers = Peers().opened()
    salt, body = b"x" * 16, msgpack.packb(None)
    parent = blake3(msgpack.packb(["stemma.v1 empty", "urn:a:1"])).digest()
    digest = blake3(salt + body).digest()
    mine = blake3(msgpack.packb(["stemma.v1 fact", "set", "urn:a:1", parent, digest])).digest()
    fact = FactItem(index=0, id=EntityId("urn:a:1"), kind="set", parent=Hash(parent), salt=salt, body=body)
    commit = CommitItem(version=Version(1), branch=BranchName("main"), author=SPACE, time=TimeMs(1), facts=(fact,))
    verdict = AcceptedVerdict(
        local=Local(1),
        version=Version(1),
        time=TimeMs(1),
        hash=Hash(bytes(32)),
        request=Hash(bytes(32)),
        hashes=(Hash(mine),),
        salts=(salt,),
    )
    frame = Sync(from_=Version(0), to=Version(1), hash=Hash(bytes(32)), commits=(commit,), verdicts=(verdict,))
    seen = msgpack.unpackb(bytes(sent(peers.server.send(frame))))  # type: ignore[arg-type]
    told = seen["commits"][0]["facts"][0]
    computed = blake3(
        msgpack.packb(
            ["stemma.v1 fact", told["kind"], told["id"], told["parent"], blake3(told["salt"] + told["body"]).digest()]
        )
    ).digest()
    assert computed == seen["verdicts"][0]["hashes"][0] == mine
    assert (seen["from"], seen["to"], seen["verdicts"][0]["verdict"]) == (0, 1, "accepted")
