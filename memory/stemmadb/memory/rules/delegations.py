"""What an agent's own key may write: everything in its namespaces, and the records of its calls and sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec
from blake3 import blake3

from stemmadb.memory.rules import ids
from stemmadb.memory.rules.instants import Millis

DAYS: Final = 7
"""For how long a key holds its rights; they are renewed when a session opens."""
RENEW_SECONDS: Final = (DAYS - 1) * 24 * 3_600.0
PREFIXES_MAX: Final = 64
"""Prefixes in one token."""
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_KEY_CHARACTERS_MAX: Final = 40


class AgentSession(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `urn:session:<uuid>`, in the first commit of the session."""

    v: Literal[1] = 1
    agent: str
    client: dict[str, Any]
    """What the client says that it is. Nothing is decided by it."""
    started_at: Millis


def key_name(agent: str) -> str:
    """The name of an agent's key in the directory `keys`.

    >>> key_name("ada"), key_name("Ada L.")
    ('agent-ada', 'agent-h.c92d8f6161b8bb37')
    """
    is_plain = set(agent) <= _PLAIN and len(agent) <= _KEY_CHARACTERS_MAX and not agent.startswith("h.")
    return f"agent-{agent if is_plain else 'h.' + blake3(agent.encode()).hexdigest()[:16]}"


def prefixes_of(namespaces: Iterable[str] | None) -> list[str] | None:
    """The prefixes that a token is limited to; None if a token cannot have so many."""
    if namespaces is None:
        return ["*"]
    found = [ids.CALLS + "*", ids.SESSIONS + "*"]
    for name in sorted(namespaces):
        nsh = ids.namespace_hash(name)
        found += [ids.namespace_entity(nsh) + "*", *(f"{kind}{nsh}:*" for kind in ids.OF_A_NAMESPACE)]
    return found if len(found) <= PREFIXES_MAX else None
