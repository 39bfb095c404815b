"""The compiled lane, where there is one: the same answers for plain commits as the modules in Python, sooner.

It is built where a C compiler is at hand (`native/`, docs/decisions/0011); everything works without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol, cast

from blake3 import blake3

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model import changes, commit, facts, patch, pointer, proposal, request, state, writing
from stemmadb.protocol.model.admission import Accepted
from stemmadb.protocol.model.commit import Commit
from stemmadb.protocol.model.facts import Fact, FactKind
from stemmadb.protocol.model.ids import MAIN, Did, Hash, TimeMs, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.plain import Ground
from stemmadb.protocol.model.proposal import Proposal

OFF: Final = "no-native"
"""`python -X no-native` goes without it."""


class Lane(Protocol):
    """What is compiled. All arguments are given by position."""

    def bind(self, names: dict[str, object]) -> None:
        """Gives it the classes and constants that it works with, before anything else."""
        ...

    def read(
        self, data: bytes, principal: Did, session: bytes, bounds: tuple[int, int, int, int, int], limits: Limits
    ) -> Proposal | None:
        """What the message of a plain commit proposes; None if it is anything else, or not quite right."""
        ...

    def decide(
        self, batch: Sequence[Proposal], ground: Ground, now: TimeMs, salts: Iterator[bytes], limits: Limits
    ) -> list[Accepted] | None:
        """As `plain.decide`."""
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
        """The rows of plain commits, the last facts after them, and the bytes of their bodies.

        As the server's `storage.sqlite.appending` makes them. None if one is not plain, or a map lacks what it
        refers to.
        """
        ...


@cache
def native() -> Lane | None:
    """None if it was not built, or is switched off."""
    if OFF in sys._xoptions:
        return None
    try:
        lane = cast(Lane, import_module("stemmadb.protocol._native"))
        lane.bind(_names())
    except (ImportError, KeyError, TypeError):  # of other sources, or for records that are laid out otherwise
        return None
    return lane


def lane_name() -> str:
    """For people who operate a server."""
    return "python" if native() is None else "compiled"


def _names() -> dict[str, object]:
    records = (
        *(Accepted, changes.Change, changes.Changes, commit.Commit, commit.LocalIdentity, facts.Fact),
        *(proposal.Proposal, proposal.Step, request.Read, state.EntityState, state.Missing, Ground, Limits),
    )
    calls = (StemmaError, patch.Work, blake3, changes.push, proposal.patch_step, writing.value_after)
    return {
        **{one.__name__: one for one in (*records, *calls)},
        **{kind: kind for kind in ("set", "patch", "delete")},
        "ABSENT": state.Missing.ABSENT,
        "MAIN": MAIN,
        "NO_ARGUMENTS": commit.NO_ARGUMENTS,
        "NO_BODY": facts.NO_BODY,
        "TAG_COMMIT": commit.TAG_COMMIT,
        "TAG_FACT": facts.TAG_FACT,
        "TAG_REQUEST": request.TAG_REQUEST,
        "WHOLE": (pointer.ROOT,),
        "PATHS_MAX": changes.PATHS_MAX,
        "OF_ID": ("version", "id"),
        "OF_PATH": ("version", "id", "path"),
        "BLIND_AND_LIMITS": ("blind", "limits"),
    }
