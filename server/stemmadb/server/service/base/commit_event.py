"""A durable commit, as the followers of a space get it."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact


class CommitEvent(msgspec.Struct, frozen=True):
    """A commit with its facts."""

    commit: Commit
    facts: tuple[Fact, ...]
