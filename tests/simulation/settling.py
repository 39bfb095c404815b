"""Settling: nothing fails any more, so that everything is decided soon, and all views become one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from check_states import differing
from simulation.apps import App
from simulation.lives import Life
from simulation.scene import DOCS, EXPECTED, Scene
from stemmadb.client.testing.waiting import whereabouts
from stemmadb.protocol.model.values.ids import MAIN, EntityId
from stemmadb.protocol.model.values.json_values import equal
from violations import expect_none

PEACE_SECONDS: Final = 120.0
"""How long everything may take to come together once nothing fails."""


async def settle(scene: Scene, apps: Sequence[App]) -> int:
    """Fails if it takes longer, or if somebody holds something else than what is durable; gives what was checked."""
    lives = [app.life for app in apps if app.life is not None]
    assert len(lives) == len(apps), "every app is alive at the end"
    try:
        async with asyncio.timeout(PEACE_SECONDS):
            while await admit(scene, lives[0]) or any(life.is_busy or life.space.pending() for life in lives):
                await asyncio.sleep(0.5)  # what is pending may shut somebody out once more
            for life in lives:
                life.check_tasks()
                await life.space.connected()
                await life.space.settled()
            while not all(one.is_right() for life in lives for one in life.followers):
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(_stuck(lives)) from None
    return sum([await _agree(scene, life) for life in lives])


async def admit(scene: Scene, life: Life) -> bool:
    """Who was shut out is let in again: only then it learns what became of its commits. Whether anybody was."""
    history = scene.states.now
    out = [did for did in scene.others if history.role(did, history.tip) is None]
    for did in out:
        with suppress(*EXPECTED):
            await life.space.acl.set(did, "write")
    return bool(out)


def _stuck(lives: Sequence[Life]) -> str:
    wrong = [f"{one}: {one.end()}" for life in lives for one in life.followers if not one.is_right()]
    status = [f"{life.app.did}: {life.space.status()}" for life in lives]
    where = whereabouts(asyncio.get_running_loop())
    return "\n".join([f"After {PEACE_SECONDS} calm seconds not all is well.", *wrong, *status, where])


async def _agree(scene: Scene, life: Life) -> int:
    """The app was told, and reads on every branch, what is durable."""
    life.look()
    wrong = {follower: follower.end() for follower in life.followers if not follower.is_right()}
    assert not wrong, f"{life.app.did} was told {wrong}"
    branches = scene.states.now.branches
    for branch in branches:
        found = (await (await life.space.branch(branch)).query("urn:*")).entities
        state = {str(id_): value for id_, value in scene.states.head(branch).items()}
        expect_none(differing(found, state, who=f"{life.app.did} on {branch}", same=equal))
    main = scene.states.head(MAIN)
    for id_ in DOCS:
        assert equal(await life.space.get(id_), main.get(EntityId(id_))), f"{life.app.did} reads {id_}"
    return len(branches) + len(DOCS) + len(life.followers)
