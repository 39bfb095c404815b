"""Founding: what is there before anything fails: a space, its apps, and what everybody counts on."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

from simulation.apps import App
from simulation.ledger import Ledger
from simulation.lives import Life
from simulation.options import Options
from simulation.scene import ACCOUNTS, COUNTERS, LISTS, TALLIES, Scene
from simulation.states import States
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.testing import World
from stemmadb.client.testing.seeds import stream
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol

NAMES: Final = ("alice", "bob", "dora", "emil", "fay")
GUEST: Final = "guest"


class Cast(NamedTuple):
    """Who takes part."""

    scene: Scene
    apps: list[App]
    guest: App | None


async def found(world: World, options: Options) -> Cast:
    """All apps are owners; none is running."""
    names, ledger = NAMES[: options.apps], Ledger()
    space = await world.make_space("shared", **dict.fromkeys(names, "own"))  # type: ignore[arg-type]
    apps = [_app(world, options, name, space, ledger) for name in names]
    others = tuple(app.did for app in apps[1:])
    scene = Scene(world, options, States(world, space), ledger, others)
    life = await apps[0].start()
    await _fill(life, ledger)
    guest = await _invite(life, scene) if "delegate" in options.work else None
    await apps[0].close(wait_seconds=1)
    return Cast(scene, apps, guest)


def _app(world: World, options: Options, name: str, space: Did, ledger: Ledger) -> App:
    random = stream(world.seed, "app", name)
    disk = SimulatedJournal() if random.random() < options.journals else None
    subprotocol: Subprotocol = JSON if random.random() < options.json else MSGPACK
    return App(world, name, space, ledger, disk, subprotocol=subprotocol)


async def _fill(life: Life, ledger: Ledger) -> None:
    mark = ledger.next_mark()
    async with life.space.transaction(note={"mark": mark}) as tx:
        for id_ in (*COUNTERS, *TALLIES, *ACCOUNTS):
            tx.set(id_, {"n": 0})
        for id_ in LISTS:
            tx.set(id_, {"items": []})
        life.begin(tx, mark)
    await tx.confirmed()


async def _invite(life: Life, scene: Scene) -> App:
    """Delegates the documents to the guest."""
    did = scene.world.identity(GUEST).did
    scene.token = await life.space.delegate(did, "write", prefixes=["urn:doc:*"], expires=timedelta(days=9))
    return App(scene.world, GUEST, life.space.did, scene.ledger, None, delegations=(scene.token,))
