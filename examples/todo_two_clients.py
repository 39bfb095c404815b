"""A todo list that two people have open: each sees its own writes at once and the other's a moment later.

Start a server with `make serve`, then: python examples/todo_two_clients.py
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from stemmadb.client import Space, connect

OPEN = {"required": ["done"], "properties": {"done": {"const": False}}}
"""The todos that are not done."""


class Screen:
    """What one person looks at: the open todos, kept up to date by a watch."""

    def __init__(self, who: str, space: Space) -> None:
        self.who = who
        self._space = space
        self._todos: dict[Any, Any] = {}
        self._news = asyncio.Condition()

    async def follow(self) -> None:
        """Runs until it is cancelled. The first change brings what is there already."""
        async for change in self._space.watch("urn:todo:*", schema=OPEN):
            self._todos.update(change.entered)
            self._todos.update(change.updated)
            for id_ in change.left:
                del self._todos[id_]
            print(f"{self.who:>4} sees {self.titles()}")
            async with self._news:
                self._news.notify_all()

    def titles(self) -> list[str]:
        return [todo["title"] for _, todo in sorted(self._todos.items())]

    async def until(self, titles: list[str]) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self.titles() == titles)


async def main(url: str) -> None:
    async with connect(url) as one, connect(url) as other:
        ann, bob = await one.space("example-todo"), await other.space("example-todo")
        screens = Screen("ann", ann), Screen("bob", bob)
        following = [asyncio.create_task(screen.follow()) for screen in screens]

        async with ann.transaction(note="the plan for today") as tx:
            tx.set("urn:todo:1", {"title": "buy milk", "done": False})
            tx.set("urn:todo:2", {"title": "call home", "done": False})
        for screen in screens:
            await screen.until(["buy milk", "call home"])

        async with bob.transaction() as tx:
            tx.patch("urn:todo:1", [{"op": "replace", "path": "/done", "value": True}])
        for screen in screens:
            await screen.until(["call home"])  # what is done has left the answer of the query

        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="ws://127.0.0.1:8420", help="the server")
    asyncio.run(main(parser.parse_args().url))
