"""What is known of names: each belongs to a server's DID, and addresses are ways to a server (NAME-1). Pure.

Example: after `127.0.0.1` and `localhost` both led to one server::

    addresses  {"ws://127.0.0.1:8420": SERVER, "ws://localhost:8420": SERVER}
    servers    {SERVER: {"todo": SPACE}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from stemmadb.client.dialing.urls import ServerUrl
from stemmadb.protocol import identity
from stemmadb.protocol.model.values.ids import Did

FORM: Final = 2


class NamedSpace(NamedTuple):
    """A space that has a name: on which server, and the addresses that lead there."""

    name: str
    space: Did
    server: Did | None
    """None while only an address is known."""
    addresses: tuple[ServerUrl, ...]


class NameBook(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file. Form 1 knew addresses only: its names wait in `unmet` for the server's DID."""

    version: int = FORM
    addresses: dict[ServerUrl, Did] = msgspec.field(default_factory=dict)
    servers: dict[Did, dict[str, Did]] = msgspec.field(default_factory=dict)
    unmet: dict[ServerUrl, dict[str, Did]] = msgspec.field(default_factory=dict)

    def check(self) -> None:
        """`InvalidDid` if something in it is no DID."""
        spaces = [did for names in (*self.servers.values(), *self.unmet.values()) for did in names.values()]
        for did in (*self.addresses.values(), *self.servers, *spaces):
            identity.public_key(did)

    def at(self, url: ServerUrl) -> dict[str, Did]:
        """The names on the server that this address led to last."""
        server = self.addresses.get(url)
        return self.unmet.get(url, {}) if server is None else self.servers.get(server, {})

    def meet(self, url: ServerUrl, server: Did) -> bool:
        """The address leads to this server; whether that is news. Names that waited for it are its names now.

        Two spellings of an address may have made two spaces of one name: the second keeps its address in its name.
        """
        if self.addresses.get(url) == server:
            return False
        self.addresses[url] = server
        names = self.servers.setdefault(server, {})
        for name, space in self.unmet.pop(url, {}).items():
            if names.setdefault(name, space) != space:
                names.setdefault(f"{name} ({url})", space)
        return True

    def give(self, server: Did, name: str, space: Did) -> Did:
        """The space that the name means there from now on: the first one that was given wins."""
        return self.servers.setdefault(server, {}).setdefault(name, space)

    def spaces(self) -> Iterator[NamedSpace]:
        """Every space that has a name."""
        for server, names in self.servers.items():
            ways = tuple(sorted(url for url, led in self.addresses.items() if led == server))
            for name, space in names.items():
                yield NamedSpace(name, space, server, ways)
        for url, names in self.unmet.items():
            for name, space in names.items():
                yield NamedSpace(name, space, None, (url,))

    def elsewhere(self, server: Did, name: str) -> NamedSpace | None:
        """A space of this name on another server."""
        return next((one for one in self.spaces() if one.name == name and one.server != server), None)
