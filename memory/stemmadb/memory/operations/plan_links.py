"""Dependencies between tasks inside a transaction: each path that is read is declared, and nothing else.

Whoever adds a -> b walks from b and declares the dependencies of every task it meets. A writer that could close the
circle meanwhile writes one of these paths: then one of the two conflicts, and looks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stemmadb.client import Space, Transaction
from stemmadb.memory.rules.ids import NamespaceHash
from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.tasks import findings, ids
from stemmadb.memory.rules.tasks.paths import PlanFile
from stemmadb.memory.rules.tasks.plan import dependencies_of


class PlanLinks:
    """What a transaction has learned about dependencies; each path is read once."""

    def __init__(self, tx: Transaction, nsh: NamespaceHash) -> None:
        self._tx = tx
        self._nsh = nsh
        self._existing: dict[str, bool] = {}
        self._waits: dict[str, list[str]] = {}

    async def missing(self, tasks: Iterable[str]) -> list[str]:
        """Those of the tasks that do not exist."""
        for id_ in sorted(set(tasks) - self._existing.keys()):
            self._existing[id_] = await self._tx.get(self._entity(id_), "/id") is not None
        return [id_ for id_ in sorted(tasks) if not self._existing[id_]]

    async def leads_to(self, starts: Iterable[str], goal: str) -> bool:
        """Whether a way along dependencies leads from one of these tasks to the goal."""
        ahead = sorted(starts)
        reached = set(ahead)
        while ahead:
            id_ = ahead.pop()
            if id_ == goal:
                return True
            if id_ not in self._waits:
                found = await self._tx.get(self._entity(id_), "/dependencies")
                self._waits[id_] = dependencies_of({"dependencies": found})
            ahead.extend(one for one in self._waits[id_] if one not in reached)
            reached.update(self._waits[id_])
        return False

    def _entity(self, id_: str) -> str:
        return PlanFile("task", id_).entity(self._nsh)


async def change_task(space: Space, nsh: NamespaceHash, id_: str, fields: dict[str, Any]) -> None:
    """Changes fields of one task without reading the rest of the plan; `InvalidRequest` if a rule says no."""
    entity = PlanFile("task", id_).entity(nsh)
    whole = {"id": id_, "type": ids.type_of(id_), "status": "pending", **fields} if ids.is_id(id_) else {}
    for wrong in findings.of_file(id_, whole) if whole else ("There is no such task.",):
        raise InvalidRequest(wrong, field=id_)

    async def work(tx: Transaction) -> None:
        if await tx.get(entity, "/id") is None:
            raise InvalidRequest(f"There is no task {id_}.", field="id")
        old = {"dependencies": await tx.get(entity, "/dependencies")} if "dependencies" in fields else {}
        links, added = PlanLinks(tx, nsh), set(dependencies_of(fields)) - set(dependencies_of(old))
        for one in await links.missing(added):
            raise InvalidRequest(f"{id_} depends on {one}, which does not exist.", field="dependencies")
        if await links.leads_to(added, id_):
            raise InvalidRequest(f"{id_} would be in a circle of dependencies.", field="dependencies")
        tx.patch(entity, [{"op": "add", "path": f"/{name}", "value": value} for name, value in fields.items()])

    await space.transact(work, note="task")
