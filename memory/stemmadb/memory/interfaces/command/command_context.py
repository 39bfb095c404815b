"""What an operation of the command line works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from stemmadb.memory.operations.erasing import EraseJob
from stemmadb.memory.operations.memory_space import MemorySpace
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.memory.rules.sweeps import SweepGuard


class CommandContext(NamedTuple):
    """What an operation works with."""

    memory: MemorySpace
    job: EraseJob
    guard: SweepGuard
    caller: MemoryCaller


CommandOperation = Callable[[CommandContext, Mapping[str, Any]], Awaitable[Mapping[str, object]]]
