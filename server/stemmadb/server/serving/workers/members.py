"""The spaces of a principal where each worker has a table: all are asked, and a change of N divides anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.http.base import membership
from stemmadb.server.http.base.membership import SpaceMembership
from stemmadb.server.serving.ownership.worker_ownership import worker_of
from stemmadb.server.serving.workers import places
from stemmadb.server.serving.workers.questions import Others
from stemmadb.server.storage.directory import worker_directories

EVERYBODY: Final = "*"
"""Asks for all spaces, for an operator."""


class WorkersMembership(SpaceMembership):
    """The membership of one worker, which asks the others too."""

    def __init__(self, directory: Path, others: Others) -> None:
        super().__init__(directory)
        self._others = others

    async def of(self, principal: Did) -> list[dict[str, Any]]:
        return await self._of_all(principal, await self.of_here(principal))

    async def all(self) -> list[dict[str, Any]]:
        return await self._of_all(EVERYBODY, await self.of_here(EVERYBODY))

    async def of_here(self, principal: str) -> list[dict[str, Any]]:
        """What this worker answers another."""
        return await (super().all() if principal == EVERYBODY else super().of(Did(principal)))

    async def _of_all(self, principal: str, here: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = await self._others.ask(json.dumps({"spaces": principal}).encode())
        found = here + [row for answer in answers for row in json.loads(answer)]
        return sorted(found, key=lambda row: str(row["space"]))


def divide(data: Path, workers: int) -> None:
    """Gives each worker the rows of its spaces, if they are divided in another way; 1 is one process for all."""
    there = [place for place in [data, *worker_directories(data)] if (place / membership.FILE).exists()]
    wanted = [data] if workers == 1 else [places.place(data, number) for number in range(workers)]
    if set(there) <= set(wanted) and (workers == 1 or len(worker_directories(data)) in (0, workers)):
        return
    for place in wanted:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    write(data, _rows(there), workers)
    for place in there:
        if place not in wanted:
            (place / membership.FILE).unlink()


def write(data: Path, lists: dict[Did, object], workers: int) -> None:
    """Replaces everything that is known."""
    if workers <= 1:
        membership.write(data, lists, afresh=True)
        return
    for number in range(workers):
        mine = {space: roles for space, roles in lists.items() if worker_of(space, workers) == number}
        membership.write(places.place(data, number), mine, afresh=True)


def _rows(there: Sequence[Path]) -> dict[Did, object]:
    """The rows of all tables; of a space that is in two, those of the table that was written last."""
    found: dict[Did, object] = {}
    for place in sorted(there, key=lambda place: (place / membership.FILE).stat().st_mtime_ns):
        here: dict[Did, dict[str, str]] = {}
        for principal, space, role in membership.rows(place):
            here.setdefault(Did(space), {})[principal] = role
        found |= here
    return found
