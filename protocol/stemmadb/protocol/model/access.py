"""What a principal may do in a space: a role, and the ids it holds for."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Role = Literal["none", "read", "write", "own"]
_INCLUDED: Final[dict[Role, frozenset[Role]]] = {
    "none": frozenset({"none"}),
    "read": frozenset({"none", "read"}),
    "write": frozenset({"none", "read", "write"}),
    "own": frozenset({"none", "read", "write", "own"}),
}
EVERY_ID: Final = ("",)


class Rights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A role, narrowed to ids that begin with one of the prefixes; the empty prefix is every id."""

    role: Role
    prefixes: tuple[str, ...] = EVERY_ID

    def has(self, role: Role) -> bool:
        """Whether the role includes another: who owns may write, who writes may read."""
        return role in _INCLUDED[self.role]

    def may_read(self, id_: str) -> bool:
        return self.role != "none" and id_.startswith(self.prefixes)

    def may_write(self, id_: str) -> bool:
        return "write" in _INCLUDED[self.role] and id_.startswith(self.prefixes)


OWNER: Final = Rights("own")
NOBODY: Final = Rights("none")


def by_list(roles: object, principal: str, space: str) -> Rights:
    """What the access list of a space gives a principal; before there is one, the space's own key owns it (ACL-1)."""
    if not isinstance(roles, dict):
        return OWNER if principal == space else NOBODY
    role: Role | None = roles.get(principal)
    return NOBODY if role is None else Rights(role)
