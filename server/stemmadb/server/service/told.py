"""A commit as those who follow a space are told it."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.model.commit import Commit
from stemmadb.protocol.model.facts import Fact


class Told(msgspec.Struct, frozen=True):
    """A commit with its facts."""

    commit: Commit
    facts: tuple[Fact, ...]
