"""The key ring: the user's identities, and the keys of the spaces made here, one private file each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from stemmadb.client.keys import key_files, private_files
from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.places import config_directory
from stemmadb.protocol import identity as identities
from stemmadb.protocol.errors import AlreadyExists, InvalidName, Malformed
from stemmadb.protocol.model.values.ids import Did

DEFAULT: Final = "default"
SEED_BYTES: Final = 32
SUFFIX: Final = ".key"
DID_KEY: Final = "did:key:"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")  # no capitals: some file systems do not tell them apart


class KeyRing:
    """Keys in a directory that only the user may enter. `make_identity` is where new keys come from.

    Example::

        ring = KeyRing()
        print(ring.identity().did)
    """

    def __init__(
        self, directory: Path | str | None = None, *, make_identity: Callable[[], Identity] = Identity.make
    ) -> None:
        self.directory: Final = config_directory() if directory is None else Path(directory).expanduser()
        self._identities = self.directory / "identities"
        self._spaces = self.directory / "spaces"
        self._make_identity = make_identity

    def identity(self, name: str = DEFAULT) -> Identity:
        """The identity of this name, made on first use: all who ask for it at once get the same one."""
        return self.find(name) or self._keep(self._file(name), self._make_identity)

    def find(self, name: str) -> Identity | None:
        """The identity of this name if there is one."""
        return _read(self._file(name))

    def identities(self) -> dict[str, Did]:
        """The names of all identities and who they are, by name."""
        return dict(sorted((file.name.removesuffix(SUFFIX), _known(file).did) for file in _files(self._identities)))

    def make(self, name: str) -> Identity:
        """A new identity; `AlreadyExists` if the name is taken."""
        return self._new(name, self._make_identity())

    def import_seed(self, name: str, seed: bytes) -> Identity:
        """Keeps an identity that was made elsewhere; `AlreadyExists` if the name is taken by another."""
        if len(seed) != SEED_BYTES:
            why = f"it has {len(seed)} bytes and not {SEED_BYTES}"
            raise Malformed(f"The secret for {name!r} cannot be used: {why}.", path=name, why=why)
        return self._new(name, Identity.from_seed(seed))

    def space_key(self, space: Did) -> Identity | None:
        """The key of a space, if it was made here."""
        found = _read(self._space_file(space))
        if found is not None and found.did != space:
            raise _misplaced(self._space_file(space), found)
        return found

    def keep_space_key(self, key: Identity) -> None:
        """Keeps the key of a space; it is durable once this returns."""
        self._keep(self._space_file(key.did), lambda: key)

    def spaces(self) -> tuple[Did, ...]:
        """The spaces whose keys are held."""
        return tuple(sorted(_known(file).did for file in _files(self._spaces)))

    def _new(self, name: str, identity: Identity) -> Identity:
        stored = self._keep(self._file(name), lambda: identity)
        if stored.did != identity.did:
            hint = "and nothing was changed. Choose another name"
            raise AlreadyExists(f"There is an identity {name!r} already, {hint}.", name=name, did=stored.did)
        return stored

    def _keep(self, file: Path, make: Callable[[], Identity]) -> Identity:
        """What is in the file, which is written if it is not there."""
        with private_files.locked(self.directory):
            if (found := _read(file)) is not None:
                return found
            private_files.make_directory(file.parent)
            made = make()
            private_files.write(file, key_files.to_pem(made))
            return made

    def _file(self, name: str) -> Path:
        if _NAME.fullmatch(name) is None:
            rule = "use 1 to 64 of a-z 0-9 . _ and -, and begin with a letter or a digit"
            raise InvalidName(f"{name[:80]!r} is not a name for an identity: {rule}.", name=name[:80])
        return self._identities / f"{name}{SUFFIX}"

    def _space_file(self, space: Did) -> Path:
        identities.public_key(space)
        return self._spaces / f"{space.removeprefix(DID_KEY)}{SUFFIX}"


def _read(file: Path) -> Identity | None:
    try:
        return key_files.read_identity(file)
    except FileNotFoundError:
        return None


def _known(file: Path) -> Identity:
    return key_files.read_identity(file)


def _files(directory: Path) -> Iterator[Path]:
    return directory.glob(f"*{SUFFIX}")


def _misplaced(file: Path, found: Identity) -> Malformed:
    why = f"it is the key of {found.did}"
    return Malformed(f"The key {str(file)!r} cannot be used: {why}. Move it away.", path=str(file), why=why)
