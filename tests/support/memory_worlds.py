"""A memory space on a real server in this process, with a clock that a test can move."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stemmadb.client import Identity
from stemmadb.memory.process.opened_memory import OpenedMemory, opened_memory
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.records import Memory
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.server.open_store import now, open_store
from stemmadb.server.service.service import Service
from stemmadb.server.serving.local_dial import URL, local_dial

AGENT = MemoryCaller(role="agent", name="ada", via="mcp")
ADMIN = MemoryCaller(role="admin", name="root", via="command")
PLUGIN = MemoryCaller(role="agent", name="plugin", via="http")


class TestClock:
    """The machine's clock, shifted."""

    __test__ = False

    def __init__(self) -> None:
        self.shift = 0
        self.passed = 0.0

    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000 + self.shift)

    def monotonic(self) -> float:
        return time.monotonic() + self.passed

    def pass_ms(self, milliseconds: int) -> None:
        """Time goes by, on both clocks."""
        self.shift += milliseconds
        self.passed += milliseconds / 1_000


@asynccontextmanager
async def memory_world(data: Path, clock: TestClock | None = None) -> AsyncIterator[OpenedMemory]:
    """A server on a data directory, and the memory in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEMMADB_HOME", str(data.parent / "home"))
        async with open_store(data) as store:
            service = Service(store, server=Identity.make().did, now=now, random=os.urandom)
            try:
                async with opened_memory(local_dial(service), url=URL, data=data, clock=clock) as opened:
                    yield opened
            finally:
                await service.stop()


def fact(ns: str, text: str, **fields: object) -> Memory:
    given: dict[str, object] = {"ns": ns, "kind": "fact", "text": text, "via": "http", "created_at": Millis(1)}
    return Memory(**(given | fields))  # type: ignore[arg-type]


def bytes_under(directory: Path) -> bytes:
    """What all files hold."""
    return b"\n".join(file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file())
