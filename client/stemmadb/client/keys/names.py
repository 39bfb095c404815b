"""Local names of spaces: each belongs to the DID of a server, and means the first space it was given to (NAME-1)."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Final

import msgspec

from stemmadb.client.dialing.urls import ServerUrl, server_url
from stemmadb.client.keys import private_files
from stemmadb.client.keys.name_book import FORM, NameBook, NamedSpace
from stemmadb.client.keys.places import config_directory
from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid, InvalidName, Malformed, NewerStorage
from stemmadb.protocol.model.values.ids import Did

FILE: Final = "names.json"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
NAME_LETTERS_MAX: Final = 128


class _Form(msgspec.Struct):
    version: int


class _FirstForm(msgspec.Struct, forbid_unknown_fields=True):
    """What the file was before names belonged to servers."""

    version: int
    servers: dict[ServerUrl, dict[str, Did]] = msgspec.field(default_factory=dict)


class Names:
    """Names in one small file of the config directory, which several processes may use at once.

    Example::

        names = Names()
        space = names.find("ws://127.0.0.1:8420", "todo")
    """

    def __init__(self, directory: Path | str | None = None) -> None:
        self.directory: Final = config_directory() if directory is None else Path(directory).expanduser()
        self.file: Final = self.directory / FILE

    def find(self, url: str, name: str) -> Did | None:
        """The space of this name on the server that the address led to last."""
        return self.all(url).get(space_name(name))

    def server(self, url: str) -> Did | None:
        """The server that the address led to last."""
        return self._read().addresses.get(server_url(url))

    def on(self, server: Did, name: str) -> Did | None:
        """The space of this name on this server."""
        return self._read().servers.get(server, {}).get(space_name(name))

    def elsewhere(self, server: Did, name: str) -> NamedSpace | None:
        """A space of this name on another server."""
        return self._read().elsewhere(server, space_name(name))

    def meet(self, url: str, server: Did) -> None:
        """Remembers that the address leads to this server."""
        if self.server(url) == server:
            return
        identity.public_key(server)
        with private_files.locked(self.directory):
            book = self._read()
            if book.meet(server_url(url), server):
                self._write(book)

    def remember(self, url: str, server: Did, name: str, space: Did) -> Did:
        """Gives a name to a space unless it has one: the space that it means from now on, durably."""
        identity.public_key(server)
        identity.public_key(space)
        with private_files.locked(self.directory):
            book = self._read()
            book.meet(server_url(url), server)
            winner = book.give(server, space_name(name), space)
            self._write(book)
        return winner

    def all(self, url: str) -> dict[str, Did]:
        """Every name on the server that the address led to last."""
        return self._read().at(server_url(url))

    def spaces(self) -> list[NamedSpace]:
        """Every space that has a name, on all servers."""
        return sorted(self._read().spaces(), key=lambda one: (one.addresses, one.server or "", one.name))

    def _write(self, book: NameBook) -> None:
        private_files.write(self.file, msgspec.json.format(msgspec.json.encode(book)))

    def _read(self) -> NameBook:
        try:
            content = private_files.read(self.file, bytes_max=FILE_BYTES_MAX, is_secret=False)
        except FileNotFoundError:
            return NameBook()
        try:
            return self._decoded(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidDid) as error:
            hint = "It was left as it is: mend it, put a good copy in its place, or move it away"
            message = f"The names of spaces in {str(self.file)!r} cannot be read: {error}. {hint}."
            raise Malformed(message, path=str(self.file), why=str(error)) from error

    def _decoded(self, content: bytes) -> NameBook:
        found = msgspec.json.decode(content, type=_Form).version
        if found > FORM:
            raise NewerStorage(file=str(self.file), found=found, known=FORM)
        book = _upgraded(content) if found < FORM else msgspec.json.decode(content, type=NameBook)
        book.check()
        return book


def _upgraded(content: bytes) -> NameBook:
    first = msgspec.json.decode(content, type=_FirstForm)
    return NameBook(unmet=first.servers)


def space_name(text: str) -> str:
    """The text as a local name: any word or words in any language; what begins with `did:` is no name but a space."""
    if not isinstance(text, str):
        raise _wrong(repr(text), "it is not a text")
    name = unicodedata.normalize("NFC", text)
    if not 1 <= len(name) <= NAME_LETTERS_MAX or not name.isprintable() or name != name.strip():
        raise _wrong(text, f"use 1 to {NAME_LETTERS_MAX} letters that can be seen, without spaces around them")
    if name.startswith("did:"):
        raise _wrong(text, "what begins with 'did:' is the space itself")
    return name


def _wrong(text: str, why: str) -> InvalidName:
    shown = text[:80].encode("utf-8", "backslashreplace").decode()
    return InvalidName(f"{shown!r} is not a name for a space: {why}.", name=shown)
