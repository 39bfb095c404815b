"""The address of a PostgreSQL database, as settings and commands take it: never with a password in it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_WANTED: Final = "it is not a URL such as postgresql://user@host/database"


def database_url(given: str) -> str:
    """The address. `ValueError` says what is wrong, without the address itself, which may have a password in it."""
    try:
        parts = urlsplit(given)
        has_password = parts.password is not None or "password" in parts.query
    except ValueError:
        raise ValueError(_WANTED) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(_WANTED)
    if has_password:
        raise ValueError("it has a password in it; put that into the file that PGPASSFILE names")
    return given
