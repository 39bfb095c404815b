"""The plan of a namespace, asked of the memory server: what sync needs of a store."""

from __future__ import annotations

from typing import Any

import msgspec

from stemmadb.memory.operations.plan_store import portions
from stemmadb.memory.process.finding import MemoryClient
from stemmadb.memory.rules.tasks.decide import FileChange, SyncDecision
from stemmadb.memory.rules.tasks.merge import Clash
from stemmadb.memory.rules.tasks.paths import PlanFile


class ServerPlan:
    """Asks one connection; the memory server decides, with the role of the secret."""

    def __init__(self, client: MemoryClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    @property
    def role(self) -> str:
        return str(self._client.ask("about", {})["role"])

    async def read(self) -> dict[PlanFile, Any]:
        found = self._client.ask("plan_read", {"ns": self._namespace})
        return dict(msgspec.convert(found["files"], list[tuple[PlanFile, Any]]))

    async def apply(self, changes: list[FileChange]) -> tuple[SyncDecision, dict[PlanFile, Any]]:
        """In portions that fit into one request each."""
        whole = SyncDecision({}, {}, {}, [])
        for some in portions(changes):
            made = self._client.ask("plan_apply", {"ns": self._namespace, "changes": some})
            whole.writes.update(msgspec.convert(made["writes"], list[tuple[PlanFile, Any]]))
            whole.clashes.update(msgspec.convert(made["clashes"], list[tuple[PlanFile, Clash]]))
            whole.refusals.update(msgspec.convert(made["refusals"], list[tuple[PlanFile, str]]))
            whole.notes.extend(made["notes"])
        return whole, await self.read()
