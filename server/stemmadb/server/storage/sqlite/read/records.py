"""Records: the statements whose rows become commits and facts again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import BranchName, Did, Hash, TimeMs, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.sqlite.connection import as_json
from stemmadb.server.storage.sqlite.read.read_view import ReadView
from stemmadb.server.storage.stored_records import commit_of, fact_of

CHUNK: Final = 1_024
"""How many commits or facts are asked for with one statement."""

COMMIT: Final = (
    "SELECT c.version, p.did, s.id, c.local, b.name, c.time, c.hash, c.request, c.arguments, "
    'c.note, c.note_salt, c.note_digest, (SELECT hash FROM "commit" AS w WHERE w.version = c.version - 1) FROM {} '
    "CROSS JOIN session AS s ON s.session = c.session CROSS JOIN principal AS p ON p.principal = s.principal "
    "LEFT JOIN branch AS b ON b.branch = c.branch"
)
FACT: Final = (
    "SELECT f.place, e.id, b.name, f.kind, f.parent, w.hash, f.hash, f.salt, f.body, f.digest FROM {} "
    "CROSS JOIN entity AS e ON e.entity = f.entity CROSS JOIN branch AS b ON b.branch = f.branch "
    "LEFT JOIN fact AS w ON w.place = f.parent"
)
_FACTS_ASKED: Final = (
    "json_each(?) AS j CROSS JOIN fact AS f ON f.place BETWEEN j.value << 20 AND j.value << 20 | 1048575"
)
_COMMITS: Final = COMMIT.format('json_each(?) AS j CROSS JOIN "commit" AS c ON c.version = j.value')
_FACTS: Final = FACT.format(_FACTS_ASKED)
_FACTS_AT: Final = FACT.format("json_each(?) AS j CROSS JOIN fact AS f ON f.place = j.value")
_FACT_HASHES: Final = (
    f"SELECT f.place, f.hash, b.name FROM {_FACTS_ASKED} CROSS JOIN branch AS b ON b.branch = f.branch"  # noqa: S608
)
_TIMES: Final = 'SELECT c.version, c.time FROM json_each(?) AS j CROSS JOIN "commit" AS c ON c.version = j.value'
_HASHES: Final = 'SELECT c.version, c.hash FROM json_each(?) AS j CROSS JOIN "commit" AS c ON c.version = j.value'
_AUTHORS: Final = (
    'SELECT c.version, p.did FROM json_each(?) AS j CROSS JOIN "commit" AS c ON c.version = j.value '
    "CROSS JOIN session AS s ON s.session = c.session CROSS JOIN principal AS p ON p.principal = s.principal"
)


def commits_at(view: ReadView, space: Did, versions: Iterable[int]) -> dict[Version, Commit]:
    """The commits of those versions that are there."""
    found: dict[Version, Commit] = {}
    for asked in _chunks(versions):
        its_facts = _fact_hashes(view, asked)
        for row in view.rows(_COMMITS, (asked,)):
            found[row[0]] = commit_of(row, space, its_facts.get(row[0], ()))
    return found


def times(view: ReadView, versions: Iterable[int]) -> dict[Version, TimeMs]:
    return {version: time for asked in _chunks(versions) for version, time in view.rows(_TIMES, (asked,))}


def hashes(view: ReadView, versions: Iterable[int]) -> dict[Version, Hash]:
    return {version: hash_ for asked in _chunks(versions) for version, hash_ in view.rows(_HASHES, (asked,))}


def authors(view: ReadView, versions: Iterable[int]) -> dict[Version, Did]:
    return {version: did for asked in _chunks(versions) for version, did in view.rows(_AUTHORS, (asked,))}


def facts_in(view: ReadView, versions: Iterable[int]) -> dict[Version, tuple[Fact, ...]]:
    """The facts of each version, in order; a version without is left out."""
    found: dict[Version, list[Fact]] = {}
    for asked in _chunks(versions):
        for row in view.rows(_FACTS, (asked,)):
            fact = fact_of(row)
            found.setdefault(fact.version, []).append(fact)
    return {version: tuple(its) for version, its in found.items()}


def facts_at(view: ReadView, numbers: Sequence[int]) -> list[Fact]:
    """The facts at those places, in the order asked for."""
    return [fact_of(row) for asked in _chunks(numbers) for row in view.rows(_FACTS_AT, (asked,))]


def _chunks(numbers: Iterable[int]) -> Iterator[str]:
    wanted = list(dict.fromkeys(numbers))
    for start in range(0, len(wanted), CHUNK):
        yield as_json(wanted[start : start + CHUNK])


def _fact_hashes(view: ReadView, asked: str) -> dict[Version, list[tuple[Hash, BranchName]]]:
    found: dict[Version, list[tuple[Hash, BranchName]]] = {}
    for number, hash_, branch in view.rows(_FACT_HASHES, (asked,)):
        found.setdefault(Version(number >> positions.INDEX_BITS), []).append((hash_, branch))
    return found
