"""A shopping list for a household: small functions over a space, which test_shopping_list.py tests in every weather.

Start a server with `make serve`, then: python examples/shopping_list.py add milk 2
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TypedDict, cast

from stemmadb.client import Refused, Space, Transaction, connect

PREFIX = "urn:shopping:"


class Item(TypedDict):
    name: str
    count: int


async def add(space: Space, name: str, count: int = 1) -> Transaction:
    """Puts something on the list, or more of it: two who add at the same time both count."""
    async with space.transaction() as tx:
        if await tx.get(PREFIX + name, "/name") is None:
            tx.set(PREFIX + name, {"name": name, "count": count})
        else:
            tx.increment(PREFIX + name, "/count", count)
    return tx


async def bought(space: Space, name: str) -> Transaction:
    """Takes it off the list, unless somebody changed how much is wanted meanwhile: then they have to talk."""
    async with space.transaction() as tx:
        if await tx.get(PREFIX + name) is not None:
            tx.delete(PREFIX + name)
    return tx


async def wanted(space: Space) -> dict[str, int]:
    found = await space.list(f"{PREFIX}*")
    items = cast("list[Item]", [*found.values()])
    return {item["name"]: item["count"] for item in items}


def explained(refused: Refused) -> str:
    """What the app tells a person whose change was refused."""
    names = ", ".join(str(one["id"]).removeprefix(PREFIX) for one in refused.operations)
    return f"Somebody else changed {names}. The list has: {[*refused.current.values()]}"


async def main(url: str, command: str, name: str, count: int) -> None:
    async with connect(url) as db:
        space = await db.space("example-shopping")
        if command == "add":
            await (await add(space, name, count)).confirmed()
        elif command == "bought":
            await (await bought(space, name)).confirmed()
        print(await wanted(space))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["add", "bought", "show"], nargs="?", default="show")
    parser.add_argument("name", nargs="?", default="milk")
    parser.add_argument("count", nargs="?", type=int, default=1)
    parser.add_argument("--url", default="ws://127.0.0.1:8420", help="the server")
    given = parser.parse_args()
    asyncio.run(main(given.url, given.command, given.name, given.count))
