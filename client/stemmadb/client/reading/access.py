"""The access list of a space: who may do what, and changing it (ACL-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from stemmadb.client.reading.times import optional_version
from stemmadb.client.requester import Requester
from stemmadb.protocol import identity
from stemmadb.protocol.errors import Conflict, Forbidden, InvalidValue
from stemmadb.protocol.model.access.access_roles import Rights, Role
from stemmadb.protocol.model.values.ids import Did, Version
from stemmadb.protocol.wire.messages.access import AclAnswer, AclRequest

ACL_TRIES_MAX: Final = 5
"""How often a change is made again on top of another writer's."""

Grant: TypeAlias = Literal["read", "write", "own"]
Roles: TypeAlias = dict[Did, Role]
CommitRoles: TypeAlias = Callable[[Roles, Version], Awaitable[None]]
"""Sets the access list, alone in a commit that declares it read at this version; returns once it is confirmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessList:
    """Who may do what, as of `version`. `mine` are one's own rights now; `roles` is empty if one may not see it."""

    version: Version
    roles: Roles
    mine: Rights


class Acl:
    """The access list.

    access = await space.acl.get()
    await space.acl.set("did:key:z6Mk...", "write")
    """

    def __init__(self, requester: Requester, commit: CommitRoles) -> None:
        self._requester = requester
        self._commit = commit

    async def get(self, *, version: int | None = None) -> AccessList:
        """The list now, or as of a version."""
        answer = await self._requester.ask(AclRequest, AclAnswer, version=optional_version(version))
        return AccessList(version=answer.version, roles=dict(answer.roles), mine=answer.mine)

    async def set(self, did: str, role: Grant) -> None:
        """Gives an identity a role: `read`, `write` or `own`, each of which includes those before it. Needs `own`."""
        identity.public_key(did)
        if role not in get_args(Grant):
            why = f"a role is one of {', '.join(get_args(Grant))}, not {str(role)[:80]!r}"
            raise InvalidValue(f"The role cannot be given: {why}.", path="", why=why)

        def change(roles: Roles) -> Roles:
            return roles | {Did(did): role}

        await self._change(change)

    async def remove(self, did: str) -> None:
        """Takes all rights from an identity; rights delegated to it by a token are not touched. Needs `own`."""

        def change(roles: Roles) -> Roles:
            return {one: role for one, role in roles.items() if one != did}

        await self._change(change)

    async def _change(self, change: Callable[[Roles], Roles]) -> None:
        for tries in range(1, ACL_TRIES_MAX + 1):
            current = await self.get()
            # A caller that cannot see the whole list would write it without the others.
            if not current.mine.has("own"):
                raise Forbidden(action="change the access list", needs="own")
            changed = change(current.roles)
            if changed == current.roles:
                return
            if "own" not in changed.values():
                why = "the access list keeps at least one owner; name another one first"
                raise InvalidValue(f"The access list cannot be changed so: {why}.", path="", why=why)
            try:
                await self._commit(changed, current.version)
            except Conflict:
                if tries == ACL_TRIES_MAX:
                    raise
            else:
                return
