"""What a `Front` asks when it has read a request head: which space, and who serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.version import read_space_path, space_path
from stemmadb.server.log_events import Log
from stemmadb.server.serving.ownership.port import Owner, Ownership, PassingOn
from stemmadb.server.serving.ownership.single_process import NeverPassesOn, SingleProcess

LOG: Final = Log("ownership")
_SPACES: Final = space_path(Did(""))

Found: TypeAlias = Callable[[Owner | None], None]
"""Called once with the owner; None if it cannot be found now."""


def space_of(path: str) -> Did | None:
    """The space that a path without its query names, as `/v1/spaces/<did>` or below it; None if it names none."""
    if not path.startswith(_SPACES):
        return None
    try:
        return read_space_path(_SPACES + path[len(_SPACES) :].partition("/")[0])
    except StemmaError:
        return None  # where it arrives it is answered with what is wrong


class Routing:
    """An ownership with its way of passing connections on; asks it once for all requests of a turn of the loop,
    and not again for a space before it has answered.
    """

    def __init__(self, ownership: Ownership | None = None, passing: PassingOn | None = None) -> None:
        self.ownership: Final[Ownership] = ownership or SingleProcess()
        self.passing: Final[PassingOn] = passing or NeverPassesOn()
        self._asked: dict[Did, list[Found]] = {}
        self._under_way: dict[Did, list[Found]] = {}
        self._claims: set[asyncio.Task[None]] = set()

    def find(self, space: Did, found: Found) -> None:
        """Calls back with the owner: at once if it is known."""
        owner = self.ownership.known(space)
        if owner is not None:
            found(owner)
            return
        if (waiting := self._under_way.get(space)) is not None:
            waiting.append(found)
            return
        if not self._asked:
            asyncio.get_running_loop().call_soon(self._ask)
        self._asked.setdefault(space, []).append(found)

    def _ask(self) -> None:
        asked, self._asked = self._asked, {}
        self._under_way |= asked
        claim = asyncio.get_running_loop().create_task(self._claim(asked))
        self._claims.add(claim)
        claim.add_done_callback(partial(_end, self._claims))

    async def _claim(self, asked: dict[Did, list[Found]]) -> None:
        try:
            owners = await self.ownership.claim(asked.keys())
        except Exception as error:
            LOG.internal_error("claim_failed", error, spaces=len(asked))
            owners = {}
        for space in asked:
            del self._under_way[space]
        for space, waiting in asked.items():
            for found in waiting:
                found(owners.get(space))


def _end(claims: set[asyncio.Task[None]], claim: asyncio.Task[None]) -> None:
    claims.discard(claim)
