"""The bounds of the service that an operator may set, each with a name."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import MEBIBYTE


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on sessions; the bounds that `hello` announces to clients are in `Limits`."""

    make_spaces: frozenset[Did] | None = None
    """The spaces that may be made; None is any."""
    opening_timeout_ms: int = 10_000
    """Until a session has to be open on a connection."""
    connections_per_principal_max: int = 100
    requests_per_second: int = 2_000
    """Of one principal, over all its connections."""
    commits_per_second: int = 20_000
    """Of one principal, over all its connections."""
    refusals_per_second: int = 2_000
    """Messages of one connection that are refused: unreadable, too large or beyond a rate. Large ones count more."""
    requests_at_once_max: int = 8
    """Requests of one connection that are worked on together; the others wait."""
    unsent_bytes_max: int = 4 * MEBIBYTE
    """Bytes that wait for one client; beyond it nothing more is built for it."""
    answer_wait_ms: int = 5_000
    """How long an answer waits for the stream of its session to reach its version, before it is `unavailable`."""
    feed_bytes_max: int = 32 * MEBIBYTE
    """Recent batches that are kept of one space."""
    feed_batches_max: int = 4_096
    watch_groups_max: int = 10_000
    """Different watches of one space."""
    watched_entities_max: int = 1_000_000
    """Entities in all different watches of one space together: each takes some hundred bytes."""
    hub_idle_ms: int = 60_000
    """How long the hub of a space stays open without sessions, so that clients that come back find their watches."""
    idle_hubs_max: int = 1_000
    """Hubs that stay open without sessions."""
    unfounded_spaces_max: int = 1_000
    """Spaces without an access list that sessions have open, of all principals together."""
    quiet_ms: int = 1_000
    """How long a session may be without a frame while others commit what it does not watch."""
    refusal_ms: int = 50
    """`unknown_space` is answered after a multiple of this time, whatever the reason is."""
    sweep_ms: int = 3_600_000
    """How often uploads that nobody goes on with are removed."""


DEFAULTS = ServiceSettings()
