"""The test kit: a server in your test's process, virtual time, seeded faults of network and server, crash points.

An app that was tested offline, in conflict and after a crash, each in milliseconds. A line of a client is where its
faults are; the world has those of the server::

    from stemmadb.client.testing import World

    async def scenario(world: World) -> None:
        await world.make_space("todo")                          # alice owns it, bob writes, carol reads
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            mine, theirs = await alice.space("todo"), await bob.space("todo")
            world.network["alice"].offline()
            async with mine.transaction() as tx:
                tx.set("urn:todo:1", {"title": "written on the train"}, blind=True)
            await asyncio.sleep(3600)                           # an hour passes at once
            assert tx.status == "pending" and await theirs.get("urn:todo:1") is None
            world.network["alice"].online()
            await tx.confirmed()
            assert await theirs.get("urn:todo:1") == {"title": "written on the train"}

    def test_a_write_made_offline_arrives() -> None:
        World(seed=7).run(scenario)

Faults of a line: `offline`, `cut`, `drop_after` (the verdict is lost), `half_open`, `stop_reading`, `slow`, `delay`.
Of the server: `stop`, `crash`, `crash_before_append`, `crash_after_append`, `fail_append`, `lose_sync`, `backup` and
`restore`, `clock.jump`. Most of them by chance: `world.chaos()`, until `world.calm()`. To look on: `world.on_append`,
`world.network.on_sent`.

The same seed gives the same run: `world.trace.hash()` tells. Virtual time is an event loop that jumps to the next
timer when nobody has anything to do; it says who waits where when nothing can happen any more:

>>> import asyncio
>>> from stemmadb.client.testing import World, run
>>> async def an_hour(world: World) -> int:
...     before = world.clock()
...     await asyncio.sleep(3600)
...     return world.clock() - before
>>> World(seed=7).run(an_hour)
3600000
>>> run(asyncio.Event().wait)  # doctest: +ELLIPSIS
Traceback (most recent call last):
stemmadb.client.testing.waiting.Deadlock: At 0.000000 virtual seconds: nothing is ready, and there is no timer. ...

With pytest: `pytest_plugins = ["stemmadb.client.testing.plugin"]` gives the fixture `stemma_world` and the option
`--stemma-seed`. With pytest-asyncio, or on any other loop: `async with World() as world`, in real time.
"""

try:
    from stemmadb.client.testing.world import World
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("stemmadb.server"):
        raise
    raise ModuleNotFoundError(
        'stemmadb.client.testing runs a server in the same process: run pip install -e ".[server]" in the clone',
        name=missing.name,
    ) from missing

from stemmadb.client.testing.app import App, AppDisk
from stemmadb.client.testing.chaos import Chaos
from stemmadb.client.testing.clock import Clock
from stemmadb.client.testing.line import ClientLine, MessageCount
from stemmadb.client.testing.link import Towards
from stemmadb.client.testing.network import Network
from stemmadb.client.testing.storage import Backup
from stemmadb.client.testing.trace import EventTrace
from stemmadb.client.testing.truth import Truth
from stemmadb.client.testing.virtual_loop import VirtualLoop, run
from stemmadb.client.testing.waiting import Deadlock

__all__ = [
    "App",
    "AppDisk",
    "Backup",
    "Chaos",
    "ClientLine",
    "Clock",
    "Deadlock",
    "EventTrace",
    "MessageCount",
    "Network",
    "Towards",
    "Truth",
    "VirtualLoop",
    "World",
    "run",
]
