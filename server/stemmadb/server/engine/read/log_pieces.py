"""A commit in pieces that each fit into one part of a message (HISTORY-1, `records.joined_entries`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.reading import LogEntry
from stemmadb.protocol.wire.messages.sync import FactItem
from stemmadb.server.engine.base.paging import ENVELOPE_BYTES

BEFORE_THE_FIRST = -1


class LogPlace(msgspec.Struct, frozen=True):
    """Where a page of the log ended: after a commit, or inside it after the fact of that index.

    `BEFORE_THE_FIRST` stands for a record that was returned without any of its facts.
    """

    version: Version
    index: int | None = None


class Piece(msgspec.Struct, frozen=True):
    """An entry of a page, its encoded size, and the place after it."""

    entry: LogEntry
    size: int
    end: LogPlace


def pieces(
    commit: Commit, facts: Sequence[Fact], limits: Limits, inside: int | None = None, *, is_bare: bool = False
) -> Iterator[Piece]:
    """The commit with these of its facts; given `inside`, only what comes after the fact of that index.

    `is_bare` leaves out what the facts say.

    A piece is larger than a part only where it is the record alone, or one fact alone.
    """
    entry = records.log_entry(commit) if inside is None else _going_on(commit)
    facts = [fact for fact in facts if inside is None or fact.index > inside]
    items: list[FactItem] = []
    size, is_record = len(encode(entry)), inside is None
    item_of = records.bare_item if is_bare else records.fact_item
    for fact in facts:
        item = item_of(fact, names_branch=commit.branch is None)
        more = len(encode(item))
        if size + more > limits.part_bytes_max - ENVELOPE_BYTES and (items or is_record):
            yield _piece(entry, items, size, items[-1].index if items else BEFORE_THE_FIRST)
            entry, items, is_record = _going_on(commit), [], False
            size = len(encode(entry))
        items.append(item)
        size += more
    yield _piece(entry, items, size, None)


def _piece(entry: LogEntry, items: list[FactItem], size: int, index: int | None) -> Piece:
    return Piece(replace(entry, items=tuple(items)), size, LogPlace(entry.version, index))


def _going_on(commit: Commit) -> LogEntry:
    """An entry that brings only items; the fields that none may lack say which commit they belong to."""
    return LogEntry(
        version=commit.version,
        hash=commit.hash,
        previous=commit.previous,
        author=commit.author,
        time=commit.time,
        request=commit.request,
        note_digest=commit.note_digest,
    )
