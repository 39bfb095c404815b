"""Names and keys of spaces that all clients of a world share: two apps that open "todo" meet there."""

from __future__ import annotations

from stemmadb.client.dialing.urls import server_url
from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.name_book import NameBook, NamedSpace
from stemmadb.client.keys.names import space_name
from stemmadb.protocol.model.values.ids import Did


class SharedNames:
    """As the names in the user's config directory; whoever remembers a name first has it."""

    def __init__(self) -> None:
        self._book = NameBook()

    def find(self, url: str, name: str) -> Did | None:
        return self.all(url).get(space_name(name))

    def server(self, url: str) -> Did | None:
        return self._book.addresses.get(server_url(url))

    def on(self, server: Did, name: str) -> Did | None:
        return self._book.servers.get(server, {}).get(space_name(name))

    def elsewhere(self, server: Did, name: str) -> NamedSpace | None:
        return self._book.elsewhere(server, space_name(name))

    def meet(self, url: str, server: Did) -> None:
        self._book.meet(server_url(url), server)

    def remember(self, url: str, server: Did, name: str, space: Did) -> Did:
        """The space that the name means from now on."""
        self._book.meet(server_url(url), server)
        return self._book.give(server, space_name(name), space)

    def all(self, url: str) -> dict[str, Did]:
        return dict(self._book.at(server_url(url)))


class SharedKeys:
    """The keys of spaces that were made in the world."""

    def __init__(self) -> None:
        self._keys: dict[Did, Identity] = {}

    def space_key(self, space: Did) -> Identity | None:
        return self._keys.get(space)

    def keep_space_key(self, key: Identity) -> None:
        self._keys[key.did] = key
