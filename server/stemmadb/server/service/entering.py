"""Who comes in: delegations, rights, and where the client stands, all before the session begins (ACL-2, RESUME-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model import delegation
from stemmadb.protocol.model.access import Rights
from stemmadb.protocol.model.delegation import Lent
from stemmadb.protocol.model.ids import EMPTY_SPACE, Did, TimeMs
from stemmadb.protocol.wire.messages.session import SessionOpen
from stemmadb.server.service import opening
from stemmadb.server.service.limiting import Connections
from stemmadb.server.service.opening import Standing
from stemmadb.server.service.room import Room


class Door(Protocol):
    """The service, as those use it who come in."""

    @property
    def connections(self) -> Connections: ...

    @property
    def now(self) -> Callable[[], TimeMs]: ...

    async def room(self, space: Did, *, create: bool) -> Room: ...

    def left(self, room: Room) -> None: ...


class Entered(msgspec.Struct, frozen=True):
    """One that was let in, counted among the connections of its principal and the users of its room."""

    room: Room
    rights: Rights
    lent: tuple[Lent, ...]


async def enter(door: Door, space: Did, message: SessionOpen) -> Entered:
    """Lets the principal in, or tells it no more than that there is no such space (ACL-2)."""
    principal = message.principal
    lent = delegation.verify(message.delegations, space=space, audience=principal)
    room = await door.room(space, create=principal == space)
    try:
        rights = room.access.rights(principal, lent, door.now())
        if rights.role == "none" and not await opening.has_written(room.space, principal):
            raise UnknownSpace(space=space)
        door.connections.enter(principal)
    except BaseException:
        door.left(room)
        raise
    return Entered(room, rights, lent)


async def stand(entered: Entered, message: SessionOpen, now: TimeMs) -> Standing:
    """Where it stands; one that may do something else than at its version starts over (RESUME-1)."""
    space = entered.room.space
    standing = await opening.look(space, message)
    if standing.reset is not None or message.to == EMPTY_SPACE:
        return standing
    is_unchanged = await entered.room.access.is_unchanged(
        space, since=message.to, principal=message.principal, lent=entered.lent, now=now
    )
    if is_unchanged:
        return standing
    afresh = await opening.look(space, msgspec.structs.replace(message, to=EMPTY_SPACE, hash=None))
    return msgspec.structs.replace(afresh, reset="floor")
