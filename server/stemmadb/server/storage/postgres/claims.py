"""Claims: which node owns a space, and how another takes it over.

Looking and claiming are two statements on purpose. A single one with `NOT EXISTS (a live owner)` would judge on its
old snapshot after a lock wait, and take a space from a live node. The claim is the barrier after an unknown outcome:
it waits for the row lock that a lost append may still hold, and is a synchronous write itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stemmadb.protocol.model.values.ids import Hash, TimeMs, Version
from stemmadb.server.storage.port import OwnedElsewhere, StorageFailed, Tip
from stemmadb.server.storage.postgres.connection import PgConnection

LOOKS_MAX: Final = 5
"""How often a claim that another node was quicker with looks again."""

_LOOK: Final = (
    "SELECT t.owner, t.term, n.address FROM tip AS t LEFT JOIN node AS n ON n.node = t.owner WHERE t.space = %s::int"
)
_CLAIM: Final = (
    "UPDATE tip SET owner = %(node)s, term = term + 1 WHERE space = %(space)s::int AND term = %(term)s "
    "RETURNING term, version, hash, time, owes_scrub"
)
_GIVE_BACK: Final = "UPDATE tip SET owner = NULL WHERE space = %s::int AND owner = %s AND term = %s"


class Claimed(NamedTuple):
    """A space that this node owns, with the end of its log as it is and stays until this node appends."""

    owner: int
    term: int
    tip: Tip
    owes_scrub: bool


def claim(connection: PgConnection, node: int, space: int) -> Claimed:
    """`OwnedElsewhere` if a live node owns it; after a warning nothing is claimed, and the caller tries again."""
    for _ in range(LOOKS_MAX):
        ((owner, term, address),) = connection.rows(_LOOK, (space,))
        if owner is not None and owner != node and address is not None:
            raise OwnedElsewhere(address)
        connection.warnings.clear()
        rows = connection.rows(_CLAIM, {"node": node, "space": space, "term": term})
        connection.check_warnings()
        if rows:
            ((term, version, hash_, time, owes_scrub),) = rows
            return Claimed(node, term, Tip(Version(version), Hash(hash_), TimeMs(time)), owes_scrub)
    raise StorageFailed("other nodes claim the space at the same time")


def give_back(connection: PgConnection, space: int, claimed: Claimed) -> None:
    connection.change(_GIVE_BACK, (space, claimed.owner, claimed.term))
