"""Finding the server again: pauses, dead sockets, and a nudge (RESUME-5)."""

from __future__ import annotations

import asyncio

import pytest

from session_worlds import App, Stage, staged, until
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.testing import World
from stemmadb.protocol.errors import GoingAway, TimedOut, Unreachable

DAY = 24 * 3600.0


@pytest.mark.rule("RESUME-5")
@staged
async def test_the_pauses_between_tries_grow_and_have_a_bound(stage: Stage) -> None:
    app = await stage.app()
    app.line.offline()
    before = app.line.dials
    await asyncio.sleep(1)
    first = app.line.dials - before
    assert 3 <= first <= 20
    await asyncio.sleep(59)
    within_a_minute = app.line.dials - before
    assert within_a_minute <= 30
    before = app.line.dials
    await asyncio.sleep(600)
    assert 60 <= app.line.dials - before <= 240
    assert app.space.status().connection == "offline"
    assert isinstance(app.space.status().error, Unreachable)
    app.line.online()
    assert await until(lambda: app.space.status().connection == "open") <= 10.1
    app.line.cut()
    await until(lambda: app.space.status().connection == "offline")
    assert await until(lambda: app.space.status().connection == "open") <= app.settings.first_pause_seconds + 0.2


@pytest.mark.rule("RESUME-5")
def test_two_clients_that_lost_their_server_together_do_not_come_back_together() -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        apps = [await stage.app("alice"), await stage.app("bob"), await stage.app("carol")]
        loop = asyncio.get_running_loop()
        stage.world.crash()
        await asyncio.sleep(120)
        await stage.world.start()

        async def when(app: App) -> float:
            await app.space.connected()
            return loop.time()

        times = sorted(await asyncio.gather(*map(when, apps)))
        assert times[1] - times[0] > 0.05
        assert times[2] - times[1] > 0.05

    scenario()


@pytest.mark.rule("RESUME-5")
@staged
async def test_a_half_open_socket_is_found_within_a_bounded_time_and_replaced(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 0})).confirmed()
    app.line.half_open()
    tx = await app.set("urn:b", 1, blind=True)
    settings = app.settings
    waited = await until(lambda: tx.status == "confirmed", step=0.1)
    assert waited <= settings.heartbeat_seconds + settings.dead_seconds + 1
    assert waited >= settings.dead_seconds


@pytest.mark.rule("RESUME-5")
@staged
async def test_a_silent_machine_is_found_dead_although_nothing_is_sent(stage: Stage) -> None:
    app = await stage.app()
    stage.world.crash(silent=True, down=5)
    waited = await until(lambda: app.space.status().connection == "offline", step=0.1)
    assert waited <= app.settings.heartbeat_seconds + app.settings.dead_seconds + 0.2
    assert isinstance(app.space.status().error, TimedOut)
    await app.space.connected()


@staged
async def test_a_quiet_connection_is_kept_for_ever(stage: Stage) -> None:
    app = await stage.app()
    await asyncio.sleep(3600)
    assert (app.line.dials, app.space.status().connection) == (1, "open")


@pytest.mark.rule("RESUME-5")
@staged
async def test_a_nudge_tries_at_once(stage: Stage) -> None:
    app = await stage.app()
    app.line.offline()
    await asyncio.sleep(600)
    app.line.online()
    app.space.nudge()
    assert await until(lambda: app.space.status().connection == "open") < 0.2


@pytest.mark.rule("RESUME-5")
@staged
async def test_nudges_find_a_dead_socket_sooner_and_do_not_keep_it_alive(stage: Stage) -> None:
    app = await stage.app()
    await asyncio.sleep(1)
    app.line.half_open()
    settings = app.settings
    loop = asyncio.get_running_loop()
    began = loop.time()
    while app.space.status().connection == "open":
        assert loop.time() - began <= settings.dead_seconds + 1
        app.space.nudge()
        await asyncio.sleep(0.5)
    await app.space.connected()


@staged
async def test_a_nudge_does_not_hurt_a_connection_that_is_alive(stage: Stage) -> None:
    app = await stage.app()
    for _ in range(100):
        app.space.nudge()
        await asyncio.sleep(0.3)
    assert (app.line.dials, app.space.status().connection) == (1, "open")


@pytest.mark.rule("RESUME-5")
@staged
async def test_a_server_that_goes_away_says_so_and_is_found_when_it_is_back(stage: Stage) -> None:
    app = await stage.app()
    tx = await app.set("urn:a", 1)
    await tx.confirmed()
    await stage.world.stop()
    await until(lambda: app.space.status().connection == "offline")
    assert isinstance(app.space.status().error, GoingAway | Unreachable)
    later = await app.set("urn:b", 1, blind=True)
    await asyncio.sleep(30)
    await stage.world.start()
    await later.confirmed()
    assert stage.entities() == {"urn:a": 1, "urn:b": 1}


@staged
async def test_questions_wait_for_a_connection_and_are_answered_on_the_next_one(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", {"n": 1})).confirmed()
    app.line.drop_after(0)
    assert await app.space.get("urn:a") == {"n": 1}
    app.line.offline()
    asking = asyncio.create_task(app.space.at(version=2).get("urn:a"))
    await asyncio.sleep(5)
    app.line.online()
    assert await asking == {"n": 1}


@staged
async def test_a_question_that_nobody_answers_fails_after_a_bounded_time_with_the_reason(stage: Stage) -> None:
    app = await stage.app(settings=ClientSettings(ask_seconds=20))
    app.line.offline()
    await asyncio.sleep(0.1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(Unreachable):
        await app.space.at(version=1).get("urn:a")
    assert loop.time() - began == pytest.approx(20, abs=0.5)


@staged
async def test_closing_while_it_connects_or_reconnects_ends_at_once(stage: Stage) -> None:
    for seconds in (0.0, 0.001, 0.01, 0.05):
        app = await stage.app("bob")
        app.line.cut()
        await asyncio.sleep(seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        app.core.link.drop()
        await app.close()
        assert loop.time() - began < 0.1


@pytest.mark.rule("COMMIT-7")
def test_jumps_of_the_servers_clock_change_nothing_for_a_client() -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app, bob = await stage.app(), await stage.app("bob")
        async with app.space.watch("urn:a") as watch:
            await watch.next()
            for number, jump in enumerate((3600.0, -7200.0, DAY, -30 * DAY, 0.0)):
                stage.world.clock.jump(jump)
                await (await bob.set("urn:a", {"n": 10 * number})).confirmed()
                assert (await watch.next()).version == 2 + 2 * number
                await (await app.bump("urn:a")).confirmed()
                await watch.next()
                app.line.cut()
                await asyncio.sleep(25)
        assert stage.value("urn:a") == {"n": 41}
        entries = [entry async for entry in app.space.history("urn:a")]
        assert [one.time for one in entries] == sorted((one.time for one in entries), reverse=True)

    scenario()


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> str:
        world = World(seed=11)

        async def scenario(world: World) -> None:
            stage = Stage(world, await world.make_space())
            app, bob = await stage.app(), await stage.app("bob")
            world.chaos(every=0.3)
            for number in range(20):
                await app.set(f"urn:{number}", number, blind=True)
                await bob.set(f"urn:{number}", number, blind=True)
                await asyncio.sleep(0.1)
            world.calm()
            await app.space.settled()
            await bob.space.settled()
            await stage.close()

        world.run(scenario)
        return world.trace.hash()

    assert run() == run()
