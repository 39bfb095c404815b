"""HTTP and WebSocket writers together, and a server that was restored: nothing is lost, and no tag lies (HTTP-8)."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from check_log import Acknowledged, Entry, disputed, doubled, lost
from command_line import here
from event_reader import EventReader
from faults_lists import Recorded, Writer, all_keys, listed
from http_worlds import Answer, HttpWorld, http_world, reopened
from list_cycles import anomalies
from list_history import Append, Outcome, Read, Step
from list_history import Transaction as Done
from stemmadb.client import Identity, Transaction
from stemmadb.server.http.writes.identities import OwnSessions
from violations import expect_none


async def _add_one(tx: Transaction) -> None:
    value = await tx.get("urn:n:1")
    assert isinstance(value, int)
    tx.set("urn:n:1", value + 1)


@pytest.mark.rule("HTTP-5", "HTTP-8")
@pytest.mark.parametrize("seed", [1, 2])
async def test_writers_of_both_kinds_lose_no_update(tmp_path: Path, seed: int) -> None:
    """Each adds one to a counter that it has read; every accepted write is in the log, once, on what it read."""
    async with http_world(tmp_path) as world:
        await world.put("urn:n:1", 0)

        async def over_http(chance: random.Random) -> int:
            done = 0
            while done < 8:
                got = await world.get("/entity?id=urn:n:1")
                await asyncio.sleep(chance.random() / 100)
                put = await world.put("urn:n:1", got.json() + 1, If_Match=got.headers["etag"])
                assert put.status in (200, 412), put.body
                done += put.status == 200
            return done

        async def over_websocket() -> int:
            for _ in range(8):
                await world.space.transact(_add_one, tries=1_000)
            return 8

        work = [over_http(random.Random(seed + n)) for n in range(3)]
        total = sum(await asyncio.gather(*work, over_websocket()))
        assert (await world.get("/entity?id=urn:n:1")).json() == total
        entries = (await world.get("/entity/history?id=urn:n:1&order=oldest")).json()["entries"]
        assert [one["body"] for one in entries] == list(range(total + 1))


class HttpLists:
    """Appends to lists over HTTP, each time with a key that is sent up to three times, and records what it saw."""

    def __init__(self, name: str, world: HttpWorld, recorded: Recorded, seed: int) -> None:
        self._name, self._world, self._recorded = name, world, recorded
        self._chance = random.Random(seed)

    async def write(self, commits: int) -> None:
        while len(self._recorded.acknowledged) < commits:
            await self._one()

    async def _one(self) -> None:
        recorded, began = self._recorded, time.monotonic()
        recorded.made += 1
        number, mark = recorded.made, f"{self._name}-{recorded.made}"
        seen, to = self._chance.sample(recorded.keys(), 2)
        got = await self._world.get(f"/entity?id={seen}")
        steps: tuple[Step, ...] = (Read(seen, listed(got.json())), Append(to, 2 * number))
        version = int(got.headers["etag"].strip('"').split(".")[0])
        body = {
            "operations": [patch_of(to, 2 * number)],
            "reads": [{"id": seen, "version": version}],
            "note": {"message": mark},
        }
        times = self._chance.randrange(1, 4)
        answers: list[Answer] = await asyncio.gather(
            *(self._world.ask("POST", "/commits", body, Idempotency_Key=mark) for _ in range(times))
        )
        accepted = [one.json() for one in answers if one.status == 201]
        assert {one.code for one in answers if one.status != 201} <= {"conflict"}, answers
        recorded.acknowledged += [Acknowledged(mark, one["version"]) for one in accepted]
        outcome: Outcome = "ok" if accepted else "failed"
        recorded.transactions.append(Done(self._name, began, time.monotonic(), outcome, steps, mark))


def patch_of(id_: str, element: int) -> dict[str, object]:
    return {"op": "patch", "id": id_, "body": [{"op": "add", "path": "/-", "value": element}], "blind": True}


@pytest.mark.rule("HTTP-5", "HTTP-9", "COMMIT-2")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_mix_of_writers_has_no_cycle_and_nothing_twice(tmp_path: Path, seed: int) -> None:
    async with http_world(tmp_path) as world:
        recorded = Recorded()
        operations = [{"op": "set", "id": key, "body": [], "blind": True} for key in all_keys(400)]
        await world.ask("POST", "/commits", {"operations": operations})
        socket = Writer("socket", world.space, recorded, seed=seed, worked=lambda: None)
        https = [HttpLists(f"http{number}", world, recorded, seed + number) for number in range(3)]
        await asyncio.gather(socket.write(150), *(one.write(150) for one in https))
        entries = (await world.get("/log?limit=1000&order=oldest")).json()["entries"]
        log = [Entry(one["version"], one["note"]["message"]) for one in entries if one.get("note")]
        expect_none([*lost(recorded.acknowledged, log), *doubled(log), *disputed(recorded.acknowledged)])
        expect_none(anomalies(recorded.transactions))
        assert {one.process for one in recorded.transactions} == {"socket", "http0", "http1", "http2"}


@pytest.mark.rule("HTTP-7", "HTTP-10")
async def test_a_tag_of_a_lost_history_matches_nothing_after_a_restore(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with http_world(tmp_path) as world:
        await world.put("urn:a:1", "first")
        config = world.config
        assert (await asyncio.to_thread(here, "backup", copy, "--data", data)).code == 0
        await world.put("urn:a:1", "second")
        lost = (await world.get("/entity?id=urn:a:1")).headers["etag"]
        reader = EventReader(world, "urn:a:*")
        await reader.connect()
        await reader.until("ready")
        reader.cut()
    restored = tmp_path / "again"
    restored.mkdir()
    assert here("restore", copy, "--data", restored / "data").code == 0
    (restored / "config").symlink_to(config)
    async with reopened(restored, world) as again:
        assert (await again.put("urn:a:1", "another")).status == 200
        got = await again.get("/entity?id=urn:a:1", If_None_Match=lost)
        assert (got.status, got.json()) == (200, "another")
        assert got.headers["etag"].split(".")[0] == lost.split(".")[0], "the same version, of another history"
        late = await again.put("urn:a:1", "late", If_Match=lost)
        assert (late.status, late.code) == (412, "conflict")
        assert (await again.get("/entity?id=urn:a:1")).json() == "another"
        resumed = EventReader(again, "urn:a:*")
        resumed.last = reader.last
        await resumed.connect()
        assert (await resumed.until("reset")) == {"why": "history"}
        await resumed.until("ready")
        assert resumed.map == {"urn:a:1": "another"}


@pytest.mark.rule("HTTP-9")
def test_nobody_waits_behind_a_commit_that_was_deferred() -> None:
    """A session answers in order, so the commits after one without a verdict go into another session."""
    own = OwnSessions(random.Random(1).randbytes)
    me, other, space, twin = (Identity.make().did for _ in range(4))
    first, second = own.next(space, me), own.next(space, me)
    elsewhere = own.next(twin, me)
    assert (elsewhere.name != first.name, elsewhere.local) == (True, 1)
    assert (second.name, second.local) == (first.name, first.local + 1)
    own.deferred(space, me, second.name)
    third = own.next(space, me)
    assert (third.name != first.name, third.local) == (True, 1)
    own.deferred(space, me, first.name)  # late news of the session before
    assert own.next(space, me).name == third.name
    assert own.next(space, other).name != third.name
    again = own.next(twin, me)
    assert (again.name, again.local) == (elsewhere.name, 2), "only the space of the deferred commit begins anew"
