"""The protocol's number, the names of its two encodings, and the path a space is served on (WIRE-1, WIRE-5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from stemmadb.protocol import identity
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.ids import Did

PROTOCOL: Final = 1
"""Rises with every change that an older peer would misread; tests/vectors/message_shapes.json pins the shapes."""

MSGPACK: Final = "stemma.v1.msgpack"
JSON: Final = "stemma.v1.json"
Subprotocol: TypeAlias = Literal["stemma.v1.msgpack", "stemma.v1.json"]
SUBPROTOCOLS: Final[tuple[Subprotocol, ...]] = (MSGPACK, JSON)

ERASE_ENTITIES: Final = "erase.entities"
EXPECT_TARGET: Final = "merge.expect_target"
FOLLOW: Final = "ping.follow"
WINDOW: Final = "query.window"
"""`order`, `limit` and `after` of a query (QUERY-8)."""
COUNT: Final = "count"
PREFIXES: Final = "prefixes"
SHAPE: Final = "query.shape"
HISTOGRAM: Final = "log.histogram"
LOG_IDS: Final = "log.with_ids"
LOG_KINDS: Final = "log.kinds"
REVOKE_OWN: Final = "revoke.token"
DRY_RUN_READ: Final = "dry_run.read"
"""A dry run needs `read` and not `write` (ACL-1)."""
FEATURES: Final = (
    COUNT,
    DRY_RUN_READ,
    ERASE_ENTITIES,
    HISTOGRAM,
    LOG_KINDS,
    LOG_IDS,
    EXPECT_TARGET,
    FOLLOW,
    PREFIXES,
    SHAPE,
    WINDOW,
    REVOKE_OWN,
)
"""Optional messages and fields that a server of this version reads. A client sends them only to a server that
announced them."""
OWES_SCRUB: Final = "erase.owes_scrub"
"""Announced beside them by a server whose files hold what was destroyed until its operator's scrub (ERASE-1)."""

_SPACES: Final = "/v1/spaces/"


def choose(offered: Iterable[str]) -> Subprotocol | None:
    """The first of our subprotocols, in our order, that the peer offered."""
    known = set(offered)
    return next((name for name in SUBPROTOCOLS if name in known), None)


def space_path(space: Did) -> str:
    """The path of the WebSocket of a space, so that a proxy can route by it."""
    return _SPACES + space


def read_space_path(path: str) -> Did:
    """The space a path names; some clients write the colons of a DID as `%3A`."""
    if not path.startswith(_SPACES):
        raise Malformed(path="(address)", why=f"a space is served on {_SPACES}<did>")
    text = path[len(_SPACES) :].replace("%3A", ":").replace("%3a", ":")
    identity.public_key(text)
    return Did(text)
