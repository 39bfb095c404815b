"""The server's own identity: an Ed25519 key made on the first run and kept in the data directory."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from stemmadb.protocol.identity import did_of
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving import atomic_files
from stemmadb.server.serving.settings.problems import UnusableKey

NAME: Final = "server.key"
KEY_BYTES_MAX: Final = 4_096
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class ServerIdentity(NamedTuple):
    """The DID of the server and its signing function. It does not expose the key."""

    did: Did
    sign: Callable[[bytes], bytes]


def keep(directory: Path, file: Path | None = None) -> ServerIdentity:
    """The identity of a data directory that is held; made if there is none. `UnusableKey` says what is wrong."""
    file = file or directory / NAME
    try:
        key = _read(file)
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        atomic_files.write(file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return ServerIdentity(did_of(key.public_key().public_bytes_raw()), key.sign)


def _read(file: Path) -> Ed25519PrivateKey:
    with file.open("rb") as stream:
        mode = file.stat().st_mode
        if mode & OTHERS:
            raise _unusable(file, f"other users can access it (mode {stat.S_IMODE(mode):04o}). Run 'chmod 600' on it")
        content = stream.read(KEY_BYTES_MAX + 1)
    return _key(file, content)


def _key(file: Path, content: bytes) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        raise _unusable(
            file, "it is not a private key in PEM. Restore it from a backup, or remove it to get a new identity"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(
            file, "it is not an Ed25519 key. Restore it from a backup, or remove it to get a new identity"
        )
    return key


def _unusable(file: Path, why: str) -> UnusableKey:
    return UnusableKey(file=str(file), why=why)
