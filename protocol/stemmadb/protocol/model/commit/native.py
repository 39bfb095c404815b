"""The compiled fast path, where it was built: the same answers as the modules in Python, sooner.

It is built where there is a C compiler (`native/`, docs/decisions/0011); everything works without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, Protocol, cast

from blake3 import blake3

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit import proposal, request, write
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.batch_base import BatchBase
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log import changes, commit_record, facts, state
from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.log.facts import Fact, FactKind
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import MAIN, Did, Hash, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits

OFF: Final = "no-native"
"""`python -X no-native` goes without it."""


class FastPath(Protocol):
    """What is compiled. All arguments are given by position."""

    def bind(self, names: dict[str, object]) -> None:
        """Gives it the classes and constants that it works with, before anything else."""
        ...

    def read(
        self, data: bytes, principal: Did, session: bytes, bounds: tuple[int, int, int, int, int], limits: Limits
    ) -> Proposal | None:
        """What the message of a fast-path commit proposes; None if it is anything else, or not quite right."""
        ...

    def decide(
        self, batch: Sequence[Proposal], base: BatchBase, now: TimeMs, salts: Iterator[bytes], limits: Limits
    ) -> list[Accepted] | None:
        """As `fast_path.decide`."""
        ...

    def frame(
        self, from_: Version, to: Version, hash_: Hash, own: list[tuple[Commit, tuple[bytes | None, ...]]]
    ) -> bytes:
        """A `sync` that has nothing but the verdicts on these own commits, each with its salts, encoded."""
        ...

    def rows(
        self,
        commits: list[tuple[Commit, tuple[Fact, ...]]],
        sessions: dict[tuple[str, bytes], int],
        branches: dict[str, int],
        entities: dict[str, int],
        heads: dict[int, tuple[int, bytes]],
        kinds: dict[FactKind, int],
    ) -> tuple[list[Any], dict[int, tuple[int, bytes]], int] | None:
        """The rows of fast-path commits, the last facts after them, and the bytes of their bodies.

        As the server's `storage.sqlite.append` makes them. None if one is not a fast-path commit, or a map lacks what
        it refers to.
        """
        ...


@cache
def native() -> FastPath | None:
    """None if it was not built, or is switched off."""
    if OFF in sys._xoptions:
        return None
    try:
        from stemmadb import _native  # noqa: PLC0415

        fast_path = cast(FastPath, _native)
        fast_path.bind(_names())
    except (ImportError, KeyError, TypeError):  # of other sources, or for records that are laid out otherwise
        return None
    return fast_path


def fast_path_name() -> str:
    """For people who operate a server."""
    return "python" if native() is None else "native"


def _names() -> dict[str, object]:
    records = (
        *(Accepted, changes.RecordedChange, changes.Changes, commit_record.Commit),
        *(commit_record.LocalIdentity, facts.Fact),
        *(proposal.Proposal, proposal.Step, request.Read, state.EntityState, state.Missing, BatchBase, Limits),
    )
    calls = (StemmaError, patch.Work, blake3, changes.push, proposal.patch_step, write.value_after)
    return {
        **{one.__name__: one for one in (*records, *calls)},
        **{kind: kind for kind in ("set", "patch", "delete")},
        "ABSENT": state.Missing.ABSENT,
        "MAIN": MAIN,
        "NO_ARGUMENTS": commit_record.NO_ARGUMENTS,
        "NO_BODY": facts.NO_BODY,
        "TAG_COMMIT": commit_record.TAG_COMMIT,
        "TAG_FACT": facts.TAG_FACT,
        "TAG_REQUEST": request.TAG_REQUEST,
        "WHOLE": (pointer.ROOT,),
        "PATHS_MAX": changes.PATHS_MAX,
        "OF_ID": ("version", "id"),
        "OF_PATH": ("version", "id", "path"),
        "BLIND_AND_LIMITS": ("blind", "limits"),
    }
