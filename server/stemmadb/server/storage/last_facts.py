"""The newest facts of entities from their replays, for a backend that has no shorter way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.server.storage.port import LastFact, Replay, StateKind

LOOKED_BACK_MAX: Final = 64
"""How many facts of one entity are looked at for the one that settles its state."""


def from_replays(replays: Mapping[EntityId, Replay]) -> dict[EntityId, LastFact]:
    """`LogReader.last_facts` of the entities that were replayed."""
    return {id_: _last(found) for id_, found in replays.items()}


def state_of(newest_first: Iterable[tuple[FactKind, bool]]) -> StateKind | None:
    """The state that facts leave, each given by its kind and whether its body is there; as `replay.fold`.

    Patches keep the state before them, and a checkpoint without its body changes nothing: the newest of the other
    facts settles it. None if there is none among those given.
    """
    for kind, has_body in newest_first:
        if kind == "delete":
            return "absent"
        if kind == "patch" and not has_body:
            return "erased"
        if kind in ("set", "checkpoint") and has_body:
            return "value"
        if kind == "set":
            return "erased"
    return None


def _last(found: Replay) -> LastFact:
    last = found.facts[-1]
    looked_at = found.facts[-LOOKED_BACK_MAX:]
    state = state_of((fact.kind, fact.body is not None) for fact in reversed(looked_at))
    return LastFact(last.version, last.index, last.hash, state)
