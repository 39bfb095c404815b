"""A key as text: PKCS #8 in PEM, as other tools write it, without a password."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from stemmadb.client.keys import private_files
from stemmadb.client.keys.identity import Identity
from stemmadb.protocol.errors import Malformed

KEY_BYTES_MAX: Final = 4_096


def to_pem(identity: Identity) -> bytes:
    """The secret, as a key file holds it."""
    key = Ed25519PrivateKey.from_private_bytes(identity.seed())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def from_pem(content: bytes, *, source: str) -> Identity:
    """The identity; `Malformed` names the source and says what is wrong with it."""
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _wrong(source, "it is no private key in PEM, or it has a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _wrong(source, "it is no Ed25519 key")
    return Identity(key)


def read_identity(file: Path | str) -> Identity:
    """The identity in a key file, wherever it is; `Forbidden` if others can read it.

    Example: `connect(url, identity=read_identity("~/keys/robot.key"))`
    """
    path = Path(file).expanduser()
    return from_pem(private_files.read(path, bytes_max=KEY_BYTES_MAX, is_secret=True), source=str(path))


def _wrong(source: str, why: str) -> Malformed:
    hint = "It was left as it is: put a good copy in its place, or move it away"
    return Malformed(f"The key {source!r} cannot be used: {why}. {hint}.", path=source, why=why)
