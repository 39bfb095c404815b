"""How patient a client is, and how much it takes on: every bound has a name."""

from __future__ import annotations

from typing import NamedTuple


class ClientSettings(NamedTuple):
    """What an app may set; the defaults suit an app on a laptop and a server on the internet."""

    pending_max: int = 100_000
    """Undecided commits; past it a transaction is refused with `limit_exceeded` and nothing is applied."""
    pending_bytes_max: int = 256 * 1024 * 1024
    """Their bytes together."""
    ask_seconds: float = 30.0
    """How long a question waits for an answer, a lost connection and its return included."""
    open_seconds: float = 10.0
    """How long a connection attempt may take, greeting included."""
    heartbeat_seconds: float = 10.0
    """A connection on which nothing came for so long is asked for a sign of life (RESUME-5)."""
    dead_seconds: float = 10.0
    """One that gives none for so long after that is dead."""
    first_pause_seconds: float = 0.1
    most_pause_seconds: float = 10.0
    """The pauses between attempts to connect grow from the first to the most."""
    unsent_bytes_max: int = 1024 * 1024
    """Bytes handed to the connection and not sent yet; commits wait beyond it."""
    lost_bytes_max: int = 64 * 1024 * 1024
    """Contents of confirmed commits that are kept, to report those a restored server lost (RESUME-4)."""
    cache_bytes_max: int = 64 * 1024 * 1024
    """Bytes of the values that the cache has; past it whole watches go, the least recently used first (CACHE-5)."""
    cache_idle_watches_max: int = 32
    """Watches that the app has closed and the cache keeps up to date; past it the least recently used one goes."""
    close_seconds: float = 5.0
    """How long closing waits for undecided commits."""


DEFAULT_SETTINGS = ClientSettings()
