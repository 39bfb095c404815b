"""Secrets: who may write. The file `secrets.json` of the data directory keeps a hash of each, never the secret."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from blake3 import blake3

from stemmadb.client.keys import private_files
from stemmadb.memory.rules.records import Via
from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.roles import MemoryCaller, Role

FILE: Final = "secrets.json"
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
SECRET_BYTES: Final = 32
NAME_CHARACTERS_MAX: Final = 64


class StoredSecret(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A secret as it is kept."""

    name: str
    role: Literal["agent", "admin"]
    hash: str
    namespaces: list[str] | None = None
    """The namespaces that it is limited to."""


class _SecretsForm(msgspec.Struct, frozen=True):
    v: Literal[1] = 1
    secrets: list[StoredSecret] = []


class SecretFile:
    """Read again whenever it has changed, so that a new secret works at once."""

    def __init__(self, data: Path) -> None:
        self._directory = data / "keys"
        self._file = data / FILE
        self._stamp: tuple[int, int] | None = None
        self._known: Sequence[StoredSecret] = ()

    def make(self, role: Literal["agent", "admin"], name: str | None, namespaces: Sequence[str] | None) -> str:
        """A new secret, which is shown once and cannot be read again; `InvalidRequest` if the name is taken."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        with private_files.locked(self._directory):
            known = self._read()
            chosen = _free_name(role, known) if name is None else name
            if not 0 < len(chosen) <= NAME_CHARACTERS_MAX or any(one.name == chosen for one in known):
                raise InvalidRequest(f"The name {chosen!r} is taken, or too long. Choose another with --name.")
            made = StoredSecret(
                name=chosen,
                role=role,
                hash=_hash(secret),
                namespaces=None if namespaces is None else list(namespaces),
            )
            self._write([*known, made])
        return secret

    def revoke(self, name: str) -> bool:
        """Whether there was one of this name."""
        with private_files.locked(self._directory):
            known = self._read()
            self._write([one for one in known if one.name != name])
        return any(one.name == name for one in known)

    def all(self) -> Sequence[StoredSecret]:
        self._refresh()
        return self._known

    def caller(self, secret: str | None, via: Via) -> MemoryCaller:
        """Who a secret belongs to; without one, or with an unknown one, a viewer."""
        self._refresh()
        hashed, found = _hash(secret or ""), None
        for one in self._known:  # all of them, so that the time tells nothing
            if hmac.compare_digest(one.hash, hashed):
                found = one
        if found is None:
            return MemoryCaller(role="viewer", name="viewer", via=via)
        limit = None if found.namespaces is None else frozenset(found.namespaces)
        return MemoryCaller(role=found.role, name=found.name, via=via, namespaces=limit)

    def _refresh(self) -> None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            self._stamp, self._known = None, ()
            return
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._stamp:
            self._known = self._read()
            self._stamp = stamp

    def _read(self) -> Sequence[StoredSecret]:
        try:
            content = private_files.read(self._file, bytes_max=FILE_BYTES_MAX, is_secret=True)
        except FileNotFoundError:
            return ()
        return msgspec.json.decode(content, type=_SecretsForm).secrets

    def _write(self, known: Sequence[StoredSecret]) -> None:
        private_files.write(self._file, msgspec.json.format(msgspec.json.encode(_SecretsForm(secrets=list(known)))))


def _free_name(role: Role, known: Sequence[StoredSecret]) -> str:
    taken, number = {one.name for one in known}, 1
    while f"{role}-{number}" in taken:
        number += 1
    return f"{role}-{number}"


def _hash(secret: str) -> str:
    return blake3(secret.encode("utf-8", "surrogatepass")).hexdigest()
