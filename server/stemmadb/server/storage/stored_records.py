"""Stored records: rows become commits and facts again, with everything in them that is not stored twice.

Backends with tables use it; docs/spec/02-storage.md names the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeAlias

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import commit_record as commits
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, Identity, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import NO_BODY, Fact, FactKind, digest_of
from stemmadb.protocol.model.values.ids import BranchName, Did, Hash, Local, Version
from stemmadb.server.storage import positions

Row: TypeAlias = tuple[Any, ...]

KINDS: Final[tuple[FactKind, ...]] = ("set", "patch", "delete", "checkpoint")
"""A fact's kind is stored as its number here, counted from 1."""
KIND_NUMBERS: Final = {kind: position for position, kind in enumerate(KINDS, 1)}


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
