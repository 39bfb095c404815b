"""One process serves all spaces: the default. Nothing is asked and nothing is passed on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.ownership.port import (
    SERVED_HERE,
    LeavingConnection,
    Owner,
    OwnerUnreachable,
    RelayedEnd,
    ServedBy,
)


class SingleProcess:
    """Implements `Ownership`."""

    is_single = True

    def known(self, space: Did) -> Owner | None:  # noqa: ARG002
        return SERVED_HERE

    async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
        return dict.fromkeys(spaces, SERVED_HERE)

    def is_alive(self) -> bool:
        return True


class NeverPassesOn:
    """Implements `PassingOn` where there is nobody to pass on to."""

    def passed_by(self, headers: Mapping[str, Sequence[str]]) -> str | None:  # noqa: ARG002
        return None

    async def pass_on(self, leaving: LeavingConnection, owner: ServedBy) -> RelayedEnd | None:  # noqa: ARG002
        raise OwnerUnreachable(owner.address)
