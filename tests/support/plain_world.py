"""Spaces, people and sessions of a system test, made by a client that knows the specification only."""

from __future__ import annotations

import os
import secrets
from typing import Any

from blake3 import blake3

from plain_bytes import Key
from plain_client import PlainClient
from plain_content import set_

WORKERS = int(os.environ.get("TEST_WORKERS", "1"))


def new_key() -> Key:
    return Key(secrets.token_bytes(32))


def space_key(*, workers: int = WORKERS, owner: int | None = None) -> Key:
    """The key of a new space that this worker serves; by default one that does not accept (`TEST_WORKERS`)."""
    while True:
        key = new_key()
        found = int.from_bytes(blake3(key.did.encode()).digest(8), "big") % workers  # STORE-4
        if workers == 1 or (found == owner if owner is not None else found != 0):
            return key


class ServedSpace:
    """One space on a server, and everybody who was let into it."""

    def __init__(self, address: str, *, key: Key | None = None) -> None:
        self.address = address
        self.key, self.owner = key or space_key(), new_key()
        self.roles: dict[str, str] = {self.owner.did: "own"}
        self.clients: list[PlainClient] = []

    @property
    def space(self) -> str:
        return self.key.did

    async def found(self) -> None:
        """The first commit of a space is its access list, made by the space's own key (ACL-3)."""
        founder = self.client(self.key)
        await founder.open()
        await founder.write_now(set_(self.space, self.roles))
        await founder.close()

    def client(self, key: Key | None = None, **given: Any) -> PlainClient:
        """A client that is not connected yet; the owner's unless another key is given."""
        made = PlainClient(self.address, self.space, key or self.owner, **given)
        self.clients.append(made)
        return made

    async def enter(self, key: Key | None = None, **given: Any) -> PlainClient:
        """A client whose session is open."""
        made = self.client(key, **given)
        await made.open()
        return made

    async def let_in(self, role: str) -> Key:
        """Somebody new, with a role."""
        key = new_key()
        await self.allow(key.did, role)
        return key

    async def allow(self, did: str, role: str | None) -> int:
        """Gives a role, or takes it; the version of the new access list."""
        self.roles = {who: what for who, what in (self.roles | {did: role or ""}).items() if what}
        owner = await self.enter()
        verdict = await owner.write_now(set_(self.space, self.roles))
        await owner.close()
        version: int = verdict["version"]
        return version

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


async def agree(client: PlainClient, *numbers: int) -> None:
    """What each watch holds, once it is filled, is the query run afresh, while nobody writes (WATCH-1)."""
    for number in numbers or tuple(client.holding.watches):
        await client.filled(number)
        fresh = await client.query(client.holding.watches[number].query)
        held = client.holding.held_by(number)
        assert held == fresh, f"watch {number} holds {_difference(held, fresh)} at {client.holding.to}"
    assert not client.holding.doubts
    assert not client.holding.unknown()


def _difference(held: dict[str, Any], fresh: dict[str, Any]) -> str:
    wrong = {
        name: (held.get(name), fresh.get(name)) for name in held.keys() | fresh if held.get(name) != fresh.get(name)
    }
    return f"(held, fresh): {wrong}"
