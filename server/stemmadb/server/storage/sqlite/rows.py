"""Rows: what accepted writes are in the tables `commit` and `fact`, made where they are written.

`make_rows` is the general way; `stemmadb._native` makes the rows of fast-path commits, the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import AcceptedWrite, StorageFailed
from stemmadb.server.storage.sqlite.connection import Cell
from stemmadb.server.storage.stored_identities import number_in_session, session_of
from stemmadb.server.storage.stored_records import KIND_NUMBERS

ENTITY_BITS: Final = 40

Cells: TypeAlias = tuple[Cell, ...]
LastFact: TypeAlias = tuple[int, bytes]
"""The place and the hash of the last fact of an entity on a branch."""


class RowNumbers(NamedTuple):
    """What rows refer to: numbers of sessions, branches and entities, and last facts by `head_key`."""

    sessions: Mapping[tuple[str, bytes], int]
    branches: Mapping[str, int]
    entities: Mapping[str, int]
    heads: Mapping[int, LastFact]


class MadeRows(NamedTuple):
    """Each is a fact beside its commit; beside None if the commit was named before. A commit may have no fact."""

    rows: list[tuple[Cells | None, Cells | None]]
    heads: dict[int, LastFact]
    """The last facts after them."""


def head_key(branch: int, entity: int) -> int:
    """Under which a last fact is found."""
    return branch << ENTITY_BITS | entity


def make_rows(batch: Sequence[AcceptedWrite], numbers: RowNumbers) -> MadeRows:
    """`KeyError` if the numbers lack something."""
    sessions, branches, entities, heads = numbers
    rows: list[tuple[Cells | None, Cells | None]] = []
    written: dict[int, LastFact] = {}
    for entry in batch:
        commit = entry.commit
        assert len(commit.facts) <= positions.INDEX_MAX, "a commit has no more facts than there are indexes"
        branch = None if commit.branch is None else branches[commit.branch]
        beside: Cells | None = _commit_row(commit, sessions[session_of(commit.identity)], branch)
        if not entry.facts:
            rows.append((beside, None))
        for fact in entry.facts:
            on, entity = branches[fact.branch], entities[fact.id]
            key = head_key(on, entity)
            rows.append((beside, _fact_row(fact, entity, on, written.get(key) or heads[key])))
            written[key] = (fact.version << positions.INDEX_BITS | fact.index, fact.hash)
            beside = None
    return MadeRows(rows, written)


def _commit_row(commit: Commit, session: int, branch: int | None) -> Cells:
    note, arguments, digest = commit.note, commit.arguments, commit.note_digest
    return (
        commit.version,
        session,
        number_in_session(commit.identity),
        branch,
        commit.time,
        commit.hash,
        commit.request,
        None if arguments == NO_ARGUMENTS else arguments,
        note,
        commit.note_salt,
        digest if note is None and digest != NO_BODY else None,  # only where the note is gone
    )


def _fact_row(fact: Fact, entity: int, branch: int, head: LastFact) -> Cells:
    parent, hash_ = head
    if hash_ != fact.parent:
        raise StorageFailed(f"the parent of {fact.id!r} at version {fact.version} is not its last fact there")
    place, body, kind = fact.version << positions.INDEX_BITS | fact.index, fact.body, fact.kind
    digest = fact.digest if body is None and kind != "delete" else None
    return (place, entity, branch, KIND_NUMBERS[kind], parent, fact.hash, fact.salt, body, digest)
