"""Bounds that an app can see: what is pending, what is handed to a slow line, and work at its largest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from session_worlds import Stage, staged, staged_in, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.testing import Towards
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.limits import Limits


@staged
async def test_past_the_bound_of_pending_commits_nothing_is_applied_until_some_are_decided(stage: Stage) -> None:
    app = await stage.app(settings=ClientSettings(pending_max=10))
    app.line.offline()
    for number in range(10):
        await app.set(f"urn:{number}", number, blind=True)
    with pytest.raises(LimitExceeded, match="pending_max") as told:
        await app.set("urn:more", 1, blind=True)
    assert (told.value.facts["maximum"], told.value.facts["actual"]) == (10, 11)
    status = app.space.status()
    assert (status.pending, len(app.space.pending())) == (10, 10)
    app.line.online()
    await app.space.settled()
    assert app.space.status().pending_bytes == 0
    await (await app.set("urn:more", 1)).confirmed()
    assert len(stage.entities()) == 11


@staged
async def test_past_the_bound_of_pending_bytes_nothing_is_applied(stage: Stage) -> None:
    app = await stage.app(settings=ClientSettings(pending_bytes_max=100_000))
    app.line.offline()
    for number in range(4):
        await app.set(f"urn:{number}", "x" * 24_000, blind=True)
    with pytest.raises(LimitExceeded, match="pending_bytes_max"):
        await app.set("urn:more", "x" * 24_000, blind=True)
    assert 96_000 < app.space.status().pending_bytes < 100_000
    app.line.online()
    await app.space.settled()
    assert set(stage.entities()) == {f"urn:{number}" for number in range(4)}


@staged_in(limits=Limits(message_bytes_max=300_000))
async def test_a_commit_that_the_server_would_not_take_is_refused_before_it_is_applied(stage: Stage) -> None:
    app = await stage.app()
    with pytest.raises(LimitExceeded, match="message_bytes_max"):
        await app.set("urn:a", "x" * 400_000)
    assert app.space.status().pending == 0
    await (await app.set("urn:a", "x" * 200_000)).confirmed()


@pytest.mark.rule("NURSERY-7")
@staged
async def test_commits_wait_while_the_line_is_slow_and_the_rest_of_the_app_does_not(stage: Stage) -> None:
    app = await stage.app(settings=ClientSettings(unsent_bytes_max=100_000, heartbeat_seconds=600, dead_seconds=600))
    handed = 0
    app.line.half_open()
    for number in range(100):
        await app.set(f"urn:{number}", "x" * 10_000, blind=True)
        await asyncio.sleep(0)
        carrier: Any = app.core.link._pump
        handed = max(handed, carrier._queued_bytes)
    assert handed <= 100_000 + 11_000
    assert app.space.status().pending == 100
    app.line.melt()
    await app.space.settled()
    assert len(stage.entities()) == 100


@pytest.mark.rule("COMMIT-5", "RESUME-2", "NURSERY-7")
@pytest.mark.parametrize("has_journal", [False, True])
def test_ten_thousand_pending_commits_are_decided_when_the_line_is_back(has_journal: bool) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app = await stage.app(disk=SimulatedJournal() if has_journal else None)
        for number in range(50):
            await app.set(f"urn:{number}", {"n": 0})
        async with app.space.watch("urn:*") as watch:
            await watch.next()
            await app.space.settled()
            app.line.offline()
            await asyncio.sleep(1)
            for number in range(10_000):
                await app.increment(f"urn:{number % 50}")
            assert (await app.space.get("urn:7"), app.space.status().pending) == ({"n": 200}, 10_000)
            app.line.online()
            await app.space.settled()
            assert not app.space.rejected()
            assert await app.space.get("urn:7") == {"n": 200}
        assert stage.entities() == {f"urn:{number}": {"n": 200} for number in range(50)}
        assert len(stage.commits_of("alice")) == 10_050

    scenario()


@pytest.mark.rule("RESUME-1")
@staged
async def test_a_large_document_is_patched_with_few_bytes_both_ways(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    large: dict[str, Any] = {f"key{number}": "x" * 1_000 for number in range(5_000)}
    await (await app.set("urn:large", large)).confirmed()
    async with app.space.watch("urn:large") as watch, bob.space.watch("urn:large") as theirs:
        await watch.next()
        await theirs.next()
        sizes = {"alice": 0, "bob": 0}
        _count(stage, sizes)
        for number in range(20):
            async with app.space.transaction() as tx:
                tx.update("urn:large", large | {"key7": number})
            await tx.confirmed()
            assert (await theirs.next()).updated["urn:large"]["key7"] == number  # type: ignore[index,call-overload]
        assert max(sizes.values()) < 20_000


def _count(stage: Stage, sizes: dict[str, int]) -> None:
    """Counts the bytes of everything that arrives, in both directions."""
    for name in sizes:
        line = stage.world.network[name]
        passes = line.passes

        def counted(towards: Towards, data: bytes | str, name: str = name, passes: Any = passes) -> bool:
            sizes[name] += len(data)
            return bool(passes(towards, data))

        line.passes = counted  # type: ignore[method-assign]


@staged
async def test_a_session_with_nothing_pending_stays_quiet_and_small(stage: Stage) -> None:
    app = await stage.app()
    for number in range(300):
        await (await app.set("urn:a", number)).confirmed()
    session = app.core.session
    await until(lambda: not session._requests._sent)
    assert (len(session.nursery), session.pending_bytes, len(session._outgoing), session._outgoing.sent) == (
        0,
        0,
        0,
        {},
    )
    assert not session._journaled
