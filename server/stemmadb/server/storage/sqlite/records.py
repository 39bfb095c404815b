"""Records: rows become commits and facts again, with everything in them that is not stored twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NoReturn

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import commit_record as commits
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, Identity, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import NO_BODY, Fact, FactKind, digest_of
from stemmadb.protocol.model.values.ids import BranchName, Did, Hash, Local, TimeMs, Version
from stemmadb.server.storage.sqlite import positions
from stemmadb.server.storage.sqlite.connection import Row, as_json
from stemmadb.server.storage.sqlite.read_view import ReadView
from stemmadb.server.storage.sqlite.schema import KINDS

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
_HASHES: Final = f"SELECT f.place, f.hash, b.name FROM {_FACTS_ASKED} CROSS JOIN branch AS b ON b.branch = f.branch"  # noqa: S608
_TIMES: Final = 'SELECT c.version, c.time FROM json_each(?) AS j CROSS JOIN "commit" AS c ON c.version = j.value'
_AUTHORS: Final = (
    'SELECT c.version, p.did FROM json_each(?) AS j CROSS JOIN "commit" AS c ON c.version = j.value '
    "CROSS JOIN session AS s ON s.session = c.session CROSS JOIN principal AS p ON p.principal = s.principal"
)


def commits_at(view: ReadView, space: Did, versions: Iterable[int]) -> dict[Version, Commit]:
    """The commits of those versions that are there."""
    found: dict[Version, Commit] = {}
    for asked in _chunks(versions):
        hashes = _hashes(view, asked)
        for row in view.rows(_COMMITS, (asked,)):
            found[row[0]] = commit_of(row, space, hashes.get(row[0], ()))
    return found


def times(view: ReadView, versions: Iterable[int]) -> dict[Version, TimeMs]:
    return {version: time for asked in _chunks(versions) for version, time in view.rows(_TIMES, (asked,))}


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


def _hashes(view: ReadView, asked: str) -> dict[Version, list[tuple[Hash, BranchName]]]:
    found: dict[Version, list[tuple[Hash, BranchName]]] = {}
    for number, hash_, branch in view.rows(_HASHES, (asked,)):
        found.setdefault(Version(number >> positions.INDEX_BITS), []).append((hash_, branch))
    return found


def commit_of(row: Row, space: Did, its_facts: Sequence[tuple[Hash, BranchName]]) -> Commit:
    version, did, session, local, branch, time, hash_, request, arguments, note, note_salt, digest, previous = row
    if previous is None:
        previous = commits.genesis(space)
    return Commit(
        version=version,
        previous=previous,
        identity=_identity(version, did, session, local),
        time=time,
        request=request,
        branch=branch,
        facts=tuple([fact_hash for fact_hash, _ in its_facts]),
        fact_branches=() if branch is not None else tuple([name for _, name in its_facts]),
        arguments=NO_ARGUMENTS if arguments is None else arguments,
        note_digest=_digest(version, "commit", note_salt, note, digest),
        note=note,
        note_salt=note_salt,
        hash=hash_,
    )


def _identity(version: Version, did: Did, session: bytes, local: object) -> Identity:
    if isinstance(local, int):
        return LocalIdentity(did, session, Local(local))
    if not isinstance(local, bytes) or session:
        _broken(version, "commit", "its local or operation id is not one")
    return OperationIdentity(did, local)


def fact_of(row: Row) -> Fact:
    number, id_, branch, kind, parent, parent_hash, hash_, salt, body, digest = row
    version, index = Version(number >> positions.INDEX_BITS), number & positions.INDEX_MAX
    if parent == 0:
        parent_hash = facts.empty(id_)
    elif parent_hash is None:
        _broken(version, f"fact {index} ({id_})", "the place of its parent is not one")
    name = kind_name(number, kind)
    digest = _digest(version, f"fact {index} ({id_})", salt, body, digest)
    return Fact(version, index, branch, id_, name, parent_hash, digest, hash_, salt, body)


def kind_name(number: int, kind: int) -> FactKind:
    if not 0 < kind <= len(KINDS):
        place = positions.place_of(number)
        _broken(place.version, f"fact {place.index}", "its kind is not known")
    return KINDS[kind - 1]


def _digest(version: Version, place: str, salt: bytes | None, body: bytes | None, stored: Hash | None) -> Hash:
    """Stored only once the body is gone, so that there are never two that could differ."""
    if salt is None or body is None:
        return NO_BODY if stored is None else stored
    if stored is not None:
        _broken(version, place, "a digest is stored beside what it is the digest of")
    return digest_of(salt, body)


def _broken(version: Version, place: str, why: str) -> NoReturn:
    raise BrokenChain(version=version, place=place, why=why)
