"""Claims: which node owns a space, and how another takes it over.

Looking and claiming are two statements on purpose. A single one with `NOT EXISTS (a live owner)` would judge on its
old snapshot after a lock wait, and take a space from a live node. The claim is the barrier after an unknown outcome:
it waits for the row lock that a lost append may still hold, and is a synchronous write itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from stemmadb.protocol.model.log import commit_record
from stemmadb.protocol.model.values.ids import Did, Hash, TimeMs, Version
from stemmadb.server.storage.port import OwnedElsewhere, StorageFailed, Tip
from stemmadb.server.storage.postgres.claim_rules import SpaceSeen, judged
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.packing import int4s, int8s, texts

LOOKS_MAX: Final = 5
"""How often a claim that another node was quicker with looks again."""

_LOOK: Final = (
    "SELECT t.owner, t.term, n.address FROM tip AS t LEFT JOIN node AS n ON n.node = t.owner WHERE t.space = %s::int"
)
_CLAIM: Final = (
    "UPDATE tip SET owner = %(node)s, term = term + 1 WHERE space = %(space)s::int AND term = %(term)s "
    "RETURNING term, version, hash, time, owes_scrub"
)
_STANDS: Final = "SELECT 1 FROM tip WHERE space = %s::int AND owner = %s AND term = %s AND version = %s AND hash = %s"
_GIVE_BACK: Final = "UPDATE tip SET owner = NULL WHERE space = %s::int AND owner = %s AND term = %s"
_GIVE_BACK_ALL: Final = "UPDATE tip SET owner = NULL WHERE owner = %s AND space = ANY (%s::int[])"
_LAST: Final = "SELECT hash FROM commit WHERE space = %s::int AND version = %s"
_LOOK_ALL: Final = (
    "SELECT s.did, t.space, t.owner, t.term, n.address FROM space AS s JOIN tip AS t ON t.space = s.space "
    "LEFT JOIN node AS n ON n.node = t.owner WHERE s.did = ANY (%s)"
)
_CLAIM_ALL: Final = (
    "WITH w AS MATERIALIZED (SELECT t.space, t.term FROM unnest(%(spaces)s::int[], %(terms)s::bigint[]) "
    "AS u (space, term) JOIN tip AS t ON t.space = u.space AND t.term = u.term ORDER BY t.space "
    "FOR NO KEY UPDATE OF t) "
    "UPDATE tip AS t SET owner = %(node)s, term = t.term + 1 FROM w WHERE t.space = w.space "
    "RETURNING t.space, t.term, t.version, t.hash, t.time, t.owes_scrub"
)


class Claimed(NamedTuple):
    """A space that this node owns, with the end of its log as it is and stays until this node appends."""

    owner: int
    term: int
    tip: Tip
    owes_scrub: bool


def claim(connection: PgConnection, node: int, space: int) -> Claimed:
    """`OwnedElsewhere` if a live node owns it; after a warning nothing is claimed, and the caller tries again."""
    for _ in range(LOOKS_MAX):
        found = judged([SpaceSeen(space, *connection.rows(_LOOK, (space,))[0])], node)
        if space in found.elsewhere:
            raise OwnedElsewhere(found.elsewhere[space])
        connection.warnings.clear()
        rows = connection.rows(_CLAIM, {"node": node, "space": space, "term": found.free[space]})
        connection.check_warnings()
        if rows:
            ((term, version, hash_, time, owes_scrub),) = rows
            return Claimed(node, term, Tip(Version(version), Hash(hash_), TimeMs(time)), owes_scrub)
    raise StorageFailed("other nodes claim the space at the same time")


def check_end(connection: PgConnection, did: Did, space: int, tip: Tip) -> None:
    """`StorageFailed` if the row of a space disagrees with its last commit: nothing may be appended to that."""
    rows = connection.rows(_LAST, (space, tip.version)) if tip.version else [(commit_record.genesis(did),)]
    if rows != [(tip.hash,)]:
        raise StorageFailed(f"the end of {did} disagrees with its last commit; run stemmadb verify")


def claim_all(
    connection: PgConnection, node: int, dids: Collection[Did]
) -> tuple[dict[Did, str], dict[int, Claimed]]:
    """Who owns each space that there is: another node's address, or `Claimed` by this one, by number.

    What this node owns already, and what is not there, is in neither. Claims share one statement.
    """
    claimed: dict[int, Claimed] = {}
    for _ in range(LOOKS_MAX):
        seen = {row[0]: SpaceSeen(*row[1:]) for row in connection.rows(_LOOK_ALL, (texts(list(dids)),))}
        found = judged([one for one in seen.values() if one.owner != node], node)
        elsewhere = {
            Did(did): found.elsewhere[one.space] for did, one in seen.items() if one.space in found.elsewhere
        }
        free = found.free
        if not free:
            return elsewhere, claimed
        connection.warnings.clear()
        values = {"node": node, "spaces": int4s(list(free)), "terms": int8s(list(free.values()))}
        rows = connection.rows(_CLAIM_ALL, values)
        connection.check_warnings()
        for space, term, version, hash_, time, owes_scrub in rows:
            claimed[space] = Claimed(node, term, Tip(Version(version), Hash(hash_), TimeMs(time)), owes_scrub)
    return elsewhere, claimed


def stands(connection: PgConnection, space: int, claimed: Claimed) -> bool:
    """Whether nobody has claimed or appended anything since."""
    tip = claimed.tip
    values = (space, claimed.owner, claimed.term, tip.version, tip.hash)
    return bool(connection.rows(_STANDS, values))


def give_back(connection: PgConnection, space: int, claimed: Claimed) -> None:
    connection.change(_GIVE_BACK, (space, claimed.owner, claimed.term))


def give_back_all(connection: PgConnection, node: int, spaces: Collection[int]) -> None:
    """With one statement, however many: by a node that stops and claims nothing more."""
    connection.change(_GIVE_BACK_ALL, (node, int4s(list(spaces))))
