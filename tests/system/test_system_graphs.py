"""What a watcher holds equals the query run afresh: random graphs, random commits, connections that break."""

from __future__ import annotations

import random
from typing import Any

import pytest

from plain_client import PlainClient
from plain_content import delete_, increment, link_to, patch_, query_of, replace, set_
from plain_holding import Fields
from plain_world import ServedSpace, agree

pytestmark = pytest.mark.asyncio(loop_scope="module")
NODES = [f"urn:node:{number}" for number in range(12)]
SCHEMAS: list[Any] = [
    True,
    {},
    {"properties": {"next": True}},
    {"properties": {"kids": {"items": True}}, "required": ["kids"]},
    {"properties": {"open": {"const": True}, "next": True}, "required": ["open"]},
    {"properties": {"next": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"properties": {"n": {"maximum": 5}}}}},
    {"anyOf": [{"properties": {"n": {"minimum": 5}}, "required": ["n"]}, {"required": ["kids"]}]},
    {"properties": {"name": {"x-entity-reference": True}}},
]


def value_of(chance: random.Random) -> Any:
    """A node: some scalars, some links, sometimes something else altogether."""
    if chance.random() < 0.08:
        return chance.choice([None, 3, "text", [link_to(chance.choice(NODES))]])
    made: Fields = {"n": chance.randint(0, 9), "open": chance.random() < 0.5}
    if chance.random() < 0.7:
        made["next"] = link_to(chance.choice(NODES))
    if chance.random() < 0.4:
        made["kids"] = [link_to(chance.choice(NODES)) for _ in range(chance.randint(0, 3))]
    if chance.random() < 0.3:
        made["name"] = chance.choice([*NODES, "nobody"])
    return made


def operation_of(chance: random.Random, there: dict[str, Any]) -> Fields:
    """A write that can be made, given what is there; it keeps the books."""
    node = chance.choice(NODES)
    value = there.get(node)
    kind = chance.random()
    if node in there and kind < 0.15:
        del there[node]
        return delete_(node)
    if isinstance(value, dict) and kind < 0.35:
        value["n"] += 1
        return patch_(node, increment("/n"))
    if isinstance(value, dict) and kind < 0.6:
        value["next"] = link_to(chance.choice(NODES))
        return patch_(node, {"op": "add", "path": "/next", "value": value["next"]})
    if isinstance(value, dict) and kind < 0.7:
        value["open"] = not value["open"]
        return patch_(node, replace("/open", value["open"]))
    there[node] = value_of(chance)
    return set_(node, there[node])


def query_in(chance: random.Random, branch: str) -> Fields:
    roots: list[Fields | str] = []
    for _ in range(chance.randint(1, 3)):
        root: Fields = {"id": chance.choice([*NODES[:4], "urn:node:1*", "urn:node:*", "*"])}
        if chance.random() < 0.8:
            root["schema"] = chance.choice(SCHEMAS)
        if chance.random() < 0.2:
            root["path"] = chance.choice(["/next", "/kids", "/n"])
        roots.append(root)
    return query_of(*roots, branch=branch)


async def check_pinned(client: PlainClient) -> None:
    """While others write: what is held at `to` is the answer as of `to`."""
    to, held = client.holding.to, {number: client.holding.held_by(number) for number in client.holding.watches}
    for number, watch in client.holding.watches.items():
        assert held[number] == await client.query({**watch.query, "version": to}), f"watch {number} at {to}"


@pytest.mark.rule("WATCH-1", "WATCH-2", "RESUME-1", "SYNC-3")
@pytest.mark.parametrize("seed", range(6))
async def test_what_a_watcher_holds_is_the_query_run_afresh(served_space: ServedSpace, seed: int) -> None:
    chance = random.Random(seed)
    writers = [await served_space.enter(text=number == 1) for number in range(2)]
    watchers = [await served_space.enter(text=number == 2) for number in range(3)]
    await writers[0].write("branch.create", name="draft")
    books: dict[str, dict[str, Any]] = {"main": {}, "draft": {}}
    for watcher in watchers:
        for number in range(1, 4):
            await watcher.watch(number, query_in(chance, chance.choice(["main", "main", "draft"])))
    for step in range(60):
        branch = chance.choice(["main", "main", "draft"])
        operations = [operation_of(chance, books[branch]) for _ in range(chance.randint(1, 4))]
        await chance.choice(writers).write_now(*operations, branch=branch)
        watcher = chance.choice(watchers)
        what = chance.random()
        if what < 0.1:
            await watcher.close()
            await watcher.resume()
        elif what < 0.2:
            watcher.abort()
            await writers[0].write_now(operation_of(chance, books["main"]))
            await watcher.resume()
        elif what < 0.25:
            await watcher.watch(chance.randint(1, 4), query_in(chance, branch))
        elif what < 0.4:
            await watcher.reach((await writers[0].request("ping"))["version"])
            await check_pinned(watcher)
        if step % 20 == 19:
            await settle(watchers)
    await settle(watchers)


async def settle(watchers: list[PlainClient]) -> None:
    for watcher in watchers:
        for number in list(watcher.holding.watches):
            await watcher.filled(number)
        await agree(watcher)
