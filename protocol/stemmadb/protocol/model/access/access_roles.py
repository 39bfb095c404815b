"""What a principal may do in a space: a role, and the ids it holds for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
NO_ID: Final = ()


class Rights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A role, narrowed to ids that begin with one of the prefixes; the empty prefix is every id."""

    role: Role
    prefixes: tuple[str, ...] = EVERY_ID

    def has(self, role: Role) -> bool:
        """Whether the role includes another: an owner may write, a writer may read."""
        return role in _INCLUDED[self.role]

    def may_read(self, id_: str) -> bool:
        return self.role != "none" and id_.startswith(self.prefixes)

    def may_write(self, id_: str) -> bool:
        return "write" in _INCLUDED[self.role] and id_.startswith(self.prefixes)


OWNER: Final = Rights("own")
NOBODY: Final = Rights("none")
FOUNDER: Final = Rights("own", NO_ID)
"""The space's own key while there is no access list: it may write that list, and nothing else (ACL-3)."""
UNFOUNDED: Final = Rights("none", NO_ID)
"""Everybody else while there is no access list."""


def by_list(roles: object, principal: str, space: str) -> Rights:
    """What the access list of a space gives a principal (ACL-1); before there is one, it can only be made (ACL-3)."""
    if not isinstance(roles, dict):
        return FOUNDER if principal == space else UNFOUNDED
    role: Role | None = roles.get(principal)
    return NOBODY if role is None else Rights(role)


def is_owner(roles: object, principal: str) -> bool:
    """Whether the access list, if there is one, makes the principal an owner."""
    return isinstance(roles, dict) and roles.get(principal) == "own"


def writers(roles: object) -> frozenset[str]:
    """The principals that the access list, if there is one, lets write."""
    listed = roles if isinstance(roles, dict) else {}
    return frozenset(principal for principal, role in listed.items() if role in ("write", "own"))


def includes(role: Role, other: Role) -> bool:
    """Whether one role allows all that the other allows."""
    return other in _INCLUDED[role]


def strength(role: Role) -> int:
    """Rises with what the role allows."""
    return len(_INCLUDED[role])


def covers(prefixes: tuple[str, ...], prefix: str) -> bool:
    """Whether every id that begins with the prefix begins with one of the others."""
    return prefix.startswith(prefixes)


def meeting(prefix: str, prefixes: Iterable[str]) -> Iterator[str]:
    """For each of the others that has ids in common with the prefix, the prefix of those."""
    for other in prefixes:
        if prefix.startswith(other):
            yield prefix
        elif other.startswith(prefix):
            yield other


def narrowed(prefix: str, prefixes: Iterable[str]) -> tuple[str, ...]:
    """The fewest prefixes that hold for the ids under the one that are under any of the others."""
    return joined(meeting(prefix, prefixes))


def joined(prefixes: Iterable[str]) -> tuple[str, ...]:
    """The fewest prefixes that hold for the same ids, in order; `EVERY_ID` if they hold for every id."""
    outermost: list[str] = []
    for prefix in sorted(prefixes):
        if not outermost or not prefix.startswith(outermost[-1]):
            outermost.append(prefix)
    return tuple(outermost)
