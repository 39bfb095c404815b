"""What a person is told when a name leads to another space than it did before (NAME-1). Pure."""

from __future__ import annotations

from stemmadb.client.keys.name_book import NamedSpace
from stemmadb.protocol.model.values.ids import Did


def made_again(name: str, space: Did, url: str) -> str:
    return f"The server at {url} no longer has the space {name!r} ({space}): it was made again, and is empty."


def replaced(name: str, space: Did, url: str, *, old: Did | None, new: Did) -> str:
    return (
        f"The server at {url} was replaced: it was {old}, it is {new}. The space {name!r} was made anew there, and "
        f"is empty; the one of before is {space}."
    )


def moved(name: str, space: Did, url: str, *, old: Did | None, new: Did) -> str:
    return f"The server at {url} was {old}, it is {new}. It has the space {name!r} ({space}), which is used."


def new_here(name: str, url: str, *, server: Did, other: NamedSpace) -> str:
    return f"A new space {name!r} was made at {url} (server {server}). {known_elsewhere(name, other)}"


def known_elsewhere(name: str, other: NamedSpace) -> str:
    """Where else there is a space of this name."""
    where = other.addresses[0] if other.addresses else f"a server without a known address ({other.server})"
    return f"You have another space {name!r} at {where}: {other.space}."
