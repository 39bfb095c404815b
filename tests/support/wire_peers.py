"""A server's and a client's end of one connection, with keys from fixed seeds and a clock that is a number."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from stemmadb.protocol import identity
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.client_side import ClientConnection, SessionPosition
from stemmadb.protocol.wire.connection.server_side import ServerConnection
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol

SESSION = bytes(range(16))
CHALLENGE = bytes(range(32))


def key_of(seed: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(seed)


def did_of(key: Ed25519PrivateKey) -> Did:
    return identity.did_of(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


ALICE = key_of(b"a" * 32)
BOB = key_of(b"b" * 32)
SERVER = did_of(key_of(b"s" * 32))
SPACE = did_of(key_of(b"p" * 32))


class Peers:
    """Both ends; messages are handed over by the test."""

    def __init__(self, subprotocol: Subprotocol = MSGPACK, limits: Limits = DEFAULTS) -> None:
        self.now = 1_000
        self.server = ServerConnection(
            subprotocol=subprotocol,
            server=SERVER,
            space=SPACE,
            challenge=CHALLENGE,
            now_ms=lambda: self.now,
            limits=limits,
            features=("blobs",),
        )
        self.client = ClientConnection(subprotocol=subprotocol, space=SPACE)

    def greeted(self) -> Peers:
        self.client.receive(self.server.hello())
        return self

    def opening(self, key: Ed25519PrivateKey = ALICE, standing: SessionPosition | None = None) -> Data:
        return self.client.open(principal=did_of(ALICE), session=SESSION, sign=key.sign, standing=standing)

    def opened(self, standing: SessionPosition | None = None) -> Peers:
        self.greeted()
        self.server.receive(self.opening(standing=standing))
        return self


def sent(data: Data | None) -> Data:
    """What goes out on a connection that is not closed."""
    assert data is not None
    return data
