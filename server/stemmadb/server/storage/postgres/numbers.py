"""What an owner knows of a space by heart: the numbers of names, last facts, and which number is next.

Only the owner gives numbers, and it reads the largest ones when it claims the space. A name that is not in memory may
be in the table all the same: it goes along with the number it would get, and the append says if it has another.

    entities     {"urn:a": 1}                 in memory
    append       "urn:b" as 2, if it is new   -> is in the table as number 7: the answer says 2 -> 7, learnt as 7
    append       "urn:c" as 3, if it is new   -> was new: learnt as 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from stemmadb.server.storage import positions
from stemmadb.server.storage.memo import Memo
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres.connection import PgConnection

SESSIONS_MAX: Final = 4_096
PRINCIPALS_MAX: Final = 1_024
ENTITIES_READ_MAX: Final = 1_024
"""A space with no more entities has them all in memory from the claim on."""

LastFact: TypeAlias = tuple[int, bytes]
"""The place and the hash of the last fact of an entity on a branch."""
Session: TypeAlias = tuple[str, bytes]

_LARGEST: Final = (
    "SELECT (SELECT max(entity) FROM entity WHERE space = %(space)s::int), "
    "(SELECT max(principal) FROM principal WHERE space = %(space)s::int), "
    "(SELECT max(session) FROM session WHERE space = %(space)s::int), "
    "(SELECT max(branch) FROM branch WHERE space = %(space)s::int)"
)
_NAMES: Final = "SELECT id, entity FROM entity WHERE space = %(space)s::int"
_LINEAGE: Final = """
WITH RECURSIVE line (branch, parent, fork, depth) AS (
  SELECT branch, parent, fork, depth FROM branch WHERE space = %(space)s::int AND name = %(name)s
  UNION ALL SELECT b.branch, b.parent, b.fork, b.depth FROM line AS l
  JOIN branch AS b ON b.space = %(space)s::int AND b.branch = l.parent
)
SELECT branch, fork FROM line ORDER BY depth DESC
"""
_NEWEST: Final = """
SELECT e.id, e.entity, f.place, f.hash
FROM unnest(%(ids)s::text[]) AS j (id)
CROSS JOIN LATERAL (SELECT id, entity FROM entity WHERE space = %(space)s::int AND id = j.id LIMIT 1) AS e
CROSS JOIN LATERAL (SELECT place, hash FROM fact WHERE space = %(space)s::int AND entity = e.entity
  AND branch = %(branch)s::int AND place <= %(high)s::bigint ORDER BY place DESC LIMIT 1) AS f
"""


class BranchLine(NamedTuple):
    """A branch and those it continues, nearest first: each with the last version that counts. It never changes."""

    number: int
    spans: tuple[tuple[int, int], ...]


class OwnedNumbers:
    """Of one space, from one claim to the end of it."""

    def __init__(self, space: int, version: int, connection: PgConnection, room: Callable[[], int]) -> None:
        """`room` says of how many entities the number, and on a branch the last fact, may be in memory now."""
        self.space = space
        self.version = version
        """The end of the log, as the owner left it."""
        ((entity, principal, session, branch),) = connection.rows(_LARGEST, {"space": space})
        self._entity, self._principal, self._session, self._branch = (
            int(largest or 0) for largest in (entity, principal, session, branch)
        )
        self.entities: Final[Memo[str, int]] = Memo(room)
        self.has_all_entities = self._entity <= min(room(), ENTITIES_READ_MAX)
        """Whether all that there are are in memory, so that others are known to be new without asking."""
        if self.has_all_entities and self._entity:
            self.entities.update(connection.rows(_NAMES, {"space": space}))
        self.heads: Final[Memo[tuple[int, int], LastFact]] = Memo(room)
        """Last facts by the numbers of branch and entity."""
        self.principals: Final[Memo[str, int]] = Memo(lambda: PRINCIPALS_MAX)
        self.sessions: Final[Memo[Session, int]] = Memo(lambda: SESSIONS_MAX)
        self._branches: dict[str, BranchLine] = {}

    def trim_entities(self) -> None:
        if self.entities.trim():
            self.has_all_entities = False

    def next_entity(self) -> int:
        self._entity += 1
        return self._entity

    def next_principal(self) -> int:
        self._principal += 1
        return self._principal

    def next_session(self) -> int:
        self._session += 1
        return self._session

    def next_branch(self) -> int:
        self._branch += 1
        return self._branch

    def branch(self, connection: PgConnection, name: str) -> BranchLine:
        line = self._branches.get(name)
        if line is None:
            rows = connection.rows(_LINEAGE, {"space": self.space, "name": name})
            if not rows:
                raise StorageFailed(f"there is no branch {name!r}")
            line = self._branches[name] = BranchLine(int(rows[0][0]), tuple(_spans(rows)))
        return line

    def find_heads(self, connection: PgConnection, line: BranchLine, ids: Iterable[str]) -> None:
        """Looks up the newest facts that new ones will follow, through fork points; one statement for a span."""
        left = list(dict.fromkeys(ids))
        for number, upto in line.spans:
            if not left:
                break
            values = {"space": self.space, "ids": left, "branch": number, "high": positions.last(upto)}
            for id_, entity, place, hash_ in connection.rows(_NEWEST, values):
                self.entities[id_] = entity
                self.heads[line.number, entity] = (place, hash_)
            left = [id_ for id_ in left if (line.number, self.entities.get(id_, 0)) not in self.heads]


def _spans(rows: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    upto = positions.VERSION_MAX
    for number, fork in rows:
        yield number, upto
        upto = min(upto, fork)
