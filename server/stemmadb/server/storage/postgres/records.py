"""Records: the statements whose rows become commits and facts again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import BranchName, Did, Hash, TimeMs, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.postgres.connection import Row
from stemmadb.server.storage.postgres.packing import Int8Array, int8s
from stemmadb.server.storage.postgres.read_view import PostgresView
from stemmadb.server.storage.stored_records import commit_of, fact_of

CHUNK: Final = 1_024
"""How many commits or facts are asked for with one statement."""

_COMMIT: Final = """
SELECT c.version, p.did, s.id, c.local, b.name, c.time, c.hash, c.request, c.arguments, c.note, c.note_salt,
  c.note_digest, (SELECT hash FROM commit AS w WHERE w.space = %(space)s::int AND w.version = c.version - 1)
FROM {} JOIN session AS s ON s.space = %(space)s::int AND s.session = c.session
JOIN principal AS p ON p.space = %(space)s::int AND p.principal = s.principal
LEFT JOIN branch AS b ON b.space = %(space)s::int AND b.branch = c.branch
ORDER BY {}
"""
_FACT: Final = """
SELECT f.place, e.id, b.name, f.kind, f.parent, w.hash, f.hash, f.salt, f.body, f.digest
FROM {} JOIN entity AS e ON e.space = %(space)s::int AND e.entity = f.entity
JOIN branch AS b ON b.space = %(space)s::int AND b.branch = f.branch
LEFT JOIN fact AS w ON w.space = %(space)s::int AND w.place = f.parent
ORDER BY {}
"""
_ASKED: Final = "unnest(%(asked)s::bigint[]) WITH ORDINALITY AS j (value, key)"
_IN_VERSION: Final = "f.space = %(space)s::int AND f.place BETWEEN j.value << 20 AND j.value << 20 | 1048575"
_COMMITS: Final = _COMMIT.format(
    f"{_ASKED} JOIN commit AS c ON c.space = %(space)s::int AND c.version = j.value", "j.key"
)
_FACTS: Final = _FACT.format(f"{_ASKED} JOIN fact AS f ON {_IN_VERSION}", "j.key, f.place")
_FACTS_AT: Final = _FACT.format(f"{_ASKED} JOIN fact AS f ON f.space = %(space)s::int AND f.place = j.value", "j.key")
_FACT_HASHES: Final = (
    f"SELECT f.place, f.hash, b.name FROM {_ASKED} JOIN fact AS f ON {_IN_VERSION} "  # noqa: S608  # our own text
    "JOIN branch AS b ON b.space = %(space)s::int AND b.branch = f.branch ORDER BY f.place"
)
_AUTHORS: Final = (
    f"SELECT c.version, p.did FROM {_ASKED} JOIN commit AS c ON c.space = %(space)s::int AND c.version = j.value "  # noqa: S608
    "JOIN session AS s ON s.space = %(space)s::int AND s.session = c.session "
    "JOIN principal AS p ON p.space = %(space)s::int AND p.principal = s.principal"
)
_TIMES: Final = (
    f"SELECT c.version, c.time FROM {_ASKED} JOIN commit AS c ON c.space = %(space)s::int AND c.version = j.value"  # noqa: S608
)
_HASHES: Final = (
    f"SELECT c.version, c.hash FROM {_ASKED} JOIN commit AS c ON c.space = %(space)s::int AND c.version = j.value"  # noqa: S608
)
_COMMIT_PAGE: Final = _COMMIT.format(
    "(SELECT * FROM commit WHERE space = %(space)s::int AND version > %(after)s AND version <= %(upto)s "
    "ORDER BY version LIMIT %(limit)s) AS c",
    "c.version",
)
_FACT_PAGE: Final = _FACT.format(
    "(SELECT * FROM fact WHERE space = %(space)s::int AND place > %(after)s AND place <= %(upto)s "
    "ORDER BY place LIMIT %(limit)s) AS f",
    "f.place",
)


def commits_at(view: PostgresView, space: Did, versions: Iterable[int]) -> dict[Version, Commit]:
    """The commits of those versions that are there, in the order asked for."""
    found: dict[Version, Commit] = {}
    for asked in _chunks(versions):
        its_facts = _fact_hashes(view, asked)
        for row in view.rows(_COMMITS, {"asked": asked}):
            found[row[0]] = commit_of(with_local(row), space, its_facts.get(row[0], ()))
    return found


def commit_rows(view: PostgresView, after: int, upto: int, limit: int) -> list[Row]:
    """A page of commits, oldest first, to be made into records with their facts."""
    rows = view.rows(_COMMIT_PAGE, {"after": after, "upto": upto, "limit": limit})
    return [with_local(row) for row in rows]


def fact_page(view: PostgresView, after: int, upto: int, limit: int) -> list[Fact]:
    """A page of facts, oldest first, by the numbers of their places."""
    return [fact_of(row) for row in view.rows(_FACT_PAGE, {"after": after, "upto": upto, "limit": limit})]


def times(view: PostgresView, versions: Iterable[int]) -> dict[Version, TimeMs]:
    return {version: time for asked in _chunks(versions) for version, time in view.rows(_TIMES, {"asked": asked})}


def hashes(view: PostgresView, versions: Iterable[int]) -> dict[Version, Hash]:
    return {version: hash_ for asked in _chunks(versions) for version, hash_ in view.rows(_HASHES, {"asked": asked})}


def authors(view: PostgresView, versions: Iterable[int]) -> dict[Version, Did]:
    return {version: did for asked in _chunks(versions) for version, did in view.rows(_AUTHORS, {"asked": asked})}


def facts_in(view: PostgresView, versions: Iterable[int]) -> dict[Version, tuple[Fact, ...]]:
    """The facts of each version, in order; a version without is left out."""
    found: dict[Version, list[Fact]] = {}
    for asked in _chunks(versions):
        for row in view.rows(_FACTS, {"asked": asked}):
            fact = fact_of(row)
            found.setdefault(fact.version, []).append(fact)
    return {version: tuple(its) for version, its in found.items()}


def facts_at(view: PostgresView, numbers: Sequence[int]) -> list[Fact]:
    """The facts at those places, in the order asked for."""
    return [fact_of(row) for asked in _chunks(numbers) for row in view.rows(_FACTS_AT, {"asked": asked})]


def _chunks(numbers: Iterable[int]) -> Iterator[Int8Array]:
    wanted = list(dict.fromkeys(numbers))
    for start in range(0, len(wanted), CHUNK):
        yield int8s(wanted[start : start + CHUNK])


def _fact_hashes(view: PostgresView, asked: Int8Array) -> dict[Version, list[tuple[Hash, BranchName]]]:
    found: dict[Version, list[tuple[Hash, BranchName]]] = {}
    for number, hash_, branch in view.rows(_FACT_HASHES, {"asked": asked}):
        found.setdefault(Version(number >> positions.INDEX_BITS), []).append((hash_, branch))
    return found


def with_local(row: Row) -> Row:
    """Bytes of a session with an id are a local; those of the session without are an operation id."""
    version, did, session, local, *rest = row
    return (version, did, session, int.from_bytes(local, "big") if session else local, *rest)
