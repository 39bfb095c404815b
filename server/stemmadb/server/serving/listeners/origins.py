"""Which web pages may connect: the browser sends the origin of its page, and the list names the allowed origins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ANY: Final = "*"


class AllowedOrigins:
    """An allow list of browser origins, such as `https://app.example`.

    A browser lets any page open a WebSocket to any server, so the server has to look. What sends no origin is not a
    browser: it could have written any, so there is nothing to check.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._any = ANY in allowed
        self._allowed = frozenset(_plain(origin) for origin in allowed)

    def allow(self, origins: Sequence[str]) -> bool:
        """Whether a request with these `Origin` headers may connect; a browser sends one."""
        if self._any or not origins:
            return True
        return len(origins) == 1 and _plain(origins[0]) in self._allowed


def _plain(origin: str) -> str:
    """Scheme and host have no case, and people write a slash at the end."""
    return origin.strip().rstrip("/").lower()
