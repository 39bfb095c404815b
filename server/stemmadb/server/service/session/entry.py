"""Entry of a session: its delegations, its rights, and where the client is in the log (ACL-2, RESUME-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, TimeMs
from stemmadb.protocol.wire.messages.session import SessionOpen
from stemmadb.server.service.base.rate_limits import Connections
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.session import resume
from stemmadb.server.service.session.resume import ResumeState
from stemmadb.server.service.session.space_hub import SpaceHub


class EntryContext(Protocol):
    """The service, as a session that enters uses it."""

    @property
    def connections(self) -> Connections: ...

    @property
    def now(self) -> Callable[[], TimeMs]: ...

    @property
    def settings(self) -> ServiceSettings: ...

    async def enter_hub(self, space: Did, *, create: bool) -> SpaceHub: ...

    def leave_hub(self, hub: SpaceHub) -> None: ...


class AdmittedSession(msgspec.Struct, frozen=True):
    """A session that was let in, counted among the connections of its principal and the users of its hub."""

    hub: SpaceHub
    rights: Rights
    delegated: tuple[DelegatedRights, ...]


async def enter(
    server: EntryContext, space: Did, message: SessionOpen, delegated: tuple[DelegatedRights, ...] | None = None
) -> AdmittedSession:
    """Lets the principal in, counted among its connections; `delegated` is what was verified before, if it was.

    One without rights learns no more than that there is no such space (ACL-2), also not by the time that takes.
    """
    async with even_refusals(server):
        return await _enter(server, space, message, delegated)


@asynccontextmanager
async def even_refusals(server: EntryContext) -> AsyncIterator[None]:
    """`UnknownSpace` leaves after a whole number of slots: a space that is there has to be opened first."""
    began = asyncio.get_running_loop().time()
    try:
        yield
    except UnknownSpace:
        await _wait_for_slot(began, server.settings.refusal_ms / 1_000)
        raise


async def _wait_for_slot(began: float, seconds: float) -> None:
    """Until a whole number of slots has passed since then."""
    if seconds:
        passed = asyncio.get_running_loop().time() - began
        await asyncio.sleep(seconds - passed % seconds)


async def _enter(
    server: EntryContext, space: Did, message: SessionOpen, delegated: tuple[DelegatedRights, ...] | None
) -> AdmittedSession:
    principal = message.principal
    may_create = principal == space and delegated is None
    if delegated is None:
        delegated = delegation.verify(message.delegations, space=space, audience=principal)
    hub = await server.enter_hub(space, create=may_create)
    try:
        rights = await check_admitted(server, hub, principal, delegated)
        server.connections.enter(principal)
    except BaseException:
        server.leave_hub(hub)
        raise
    return AdmittedSession(hub, rights, delegated)


async def check_admitted(
    server: EntryContext, hub: SpaceHub, principal: Did, delegated: tuple[DelegatedRights, ...]
) -> Rights:
    """The rights of a principal; one without any learns no more than that there is no such space (ACL-2)."""
    rights = hub.access.rights(principal, delegated, server.now())
    if rights.role == "none" and not await resume.has_written(hub.space, principal):
        raise UnknownSpace(space=hub.space.did)
    return rights


async def resume_state(admitted: AdmittedSession, message: SessionOpen, now: TimeMs) -> ResumeState:
    """What the client needs first; if its rights have changed since its version it starts over (RESUME-1)."""
    space = admitted.hub.space
    state = await resume.look(space, message)
    if state.reset is not None or message.to == EMPTY_SPACE:
        return state
    is_unchanged = await admitted.hub.access.is_unchanged(
        space, since=message.to, principal=message.principal, delegated=admitted.delegated, now=now
    )
    if is_unchanged:
        return state
    afresh = await resume.look(space, msgspec.structs.replace(message, to=EMPTY_SPACE, hash=None))
    return msgspec.structs.replace(afresh, reset="floor", has_other_rights=True)
