"""What a principal may do in a space: a role, and the ids it holds for."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Role = Literal["none", "read", "write", "own"]
_RANK: Final[dict[Role, int]] = {"none": 0, "read": 1, "write": 2, "own": 3}


class Rights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A role, narrowed to ids that begin with one of the prefixes; the empty prefix is every id."""

    role: Role
    prefixes: tuple[str, ...] = ("",)

    def has(self, role: Role) -> bool:
        return _RANK[self.role] >= _RANK[role]

    def may_read(self, id_: str) -> bool:
        return _RANK[self.role] >= 1 and id_.startswith(self.prefixes)

    def may_write(self, id_: str) -> bool:
        return _RANK[self.role] >= 2 and id_.startswith(self.prefixes)


OWNER: Final = Rights("own")
NOBODY: Final = Rights("none")
