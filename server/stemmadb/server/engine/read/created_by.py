"""The commit that made a fact, as readers see it: who, when, why, and by which kind of write (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from stemmadb.protocol.model.log.commit_record import CommitKind, Identity
from stemmadb.protocol.model.values.ids import Did, TimeMs, Version
from stemmadb.server.storage.port import LogReader

CHUNK: Final = 64
"""How many records are read at once: one alone may name 100,000 facts, which are not kept here."""


class CreatedBy(msgspec.Struct, frozen=True):
    """A commit without the list of its facts. The note may be gone (ERASE-1)."""

    version: Version
    identity: Identity
    time: TimeMs
    kind: CommitKind
    note: bytes | None

    @property
    def author(self) -> Did:
        return self.identity.principal


def created_by(reader: LogReader, versions: Iterable[Version]) -> dict[Version, CreatedBy]:
    """The commits of these versions, all of which are there."""
    found: dict[Version, CreatedBy] = {}
    waiting = iter(dict.fromkeys(versions))
    while chunk := list(islice(waiting, CHUNK)):
        for version, one in reader.commits(chunk).items():
            found[version] = CreatedBy(version, one.identity, one.time, one.kind, one.note)
    return found
