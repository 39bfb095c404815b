"""Streams of events: the map built from them is the query's answer, over cuts, erasures and changes of rights."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from event_reader import EventReader
from graphs import link
from http_worlds import PATIENCE, HttpWorld, http_world
from space import SPACE
from stemmadb.client import Identity
from stemmadb.protocol.model.access import access_token, text_form
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.reading import QueryRequest
from stemmadb.protocol.wire.messages.sync import CommitItem, FactItem, Left, Sync
from stemmadb.server.http.callers.calls import SpaceCall
from stemmadb.server.http.streams import stream_events, watch_routes
from stemmadb.server.http.streams.stream_events import ChangeEvents, StreamEvent, change_of
from stemmadb.server.http.streams.watch_routes import StreamSocket
from stream_cuts import cut_and_restored

PATCH = b'[{"op":"add","path":"/m","value":2}]'
SCHEMA = {"properties": {"next": {"$ref": "#"}}}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HttpWorld]:
    async with http_world(tmp_path) as it:
        yield it


@pytest.mark.rule("HTTP-10")
async def test_a_stream_begins_with_all_and_goes_on_with_every_change(world: HttpWorld) -> None:
    await world.put("urn:s:1", {"n": 1})
    reader = EventReader(world, "urn:s:*")
    await reader.connect()
    assert (await reader.until("reset")) == {"why": "start"}
    ready = await reader.until("ready")
    assert reader.map == {"urn:s:1": {"n": 1}}
    assert ready["version"] == 2
    patch = b'[{"op":"add","path":"/m","value":2}]'
    kind = {"Content_Type": "application/json-patch+json"}
    await world.ask("PATCH", "/entity?id=urn:s:1&blind=true", patch, **kind)
    change = await reader.until("change")
    assert change["updated"][0]["value"] == {"n": 1, "m": 2}
    assert change["commits"][0]["author"] == world.db.identity.did
    await world.put("urn:s:2", 5)
    assert [one["id"] for one in (await reader.until("change"))["entered"]] == ["urn:s:2"]
    await world.ask("DELETE", "/entity?id=urn:s:1&blind=true")
    assert (await reader.until("change"))["left"] == ["urn:s:1"]
    head = await world.ask("HEAD", "/watch?select=urn:s:*")
    assert (head.status, head.headers["cache-control"]) == (200, "no-store")


@pytest.mark.rule("HTTP-10", "HTTP-7", "RESUME-1")
@pytest.mark.parametrize("seed", range(5))
async def test_after_each_ready_the_map_is_the_query_over_many_cuts(tmp_path: Path, seed: int) -> None:
    """Also over a restore of the server, with the id of an event of the history that was lost."""
    seen = await cut_and_restored(tmp_path, seed=seed, cuts=20, lives=2)
    assert seen.cuts == 40
    assert seen.most > 1, "links are followed"
    assert seen.resets == {"start": 1, "floor": 3, "history": 1}


@pytest.mark.rule("HTTP-10")
async def test_a_state_of_another_history_or_below_the_floor_starts_over(world: HttpWorld) -> None:
    for number in range(5):
        await world.put("urn:s:1", number)
    for last, why in (("3.aaaaaaaaaaaa", "history"), ("99.aaaaaaaaaaaa", "history")):
        reader = EventReader(world, "urn:s:*")
        reader.last = last
        await reader.connect()
        assert (await reader.until("reset")) == {"why": why}
        await reader.until("ready")
        assert reader.map == {"urn:s:1": 4}
    old = EventReader(world, "urn:s:*")
    await old.connect()
    await old.until("ready")
    old.cut()
    await world.put("urn:s:1", 5)
    await world.put("urn:s:1", 6)
    await world.space.compact((await world.get("")).json()["version"])
    await old.connect()
    assert (await old.until("reset")) == {"why": "floor"}
    await old.until("ready")
    assert old.map == {"urn:s:1": 6}
    assert (await world.get("/watch?select=urn:s:*&since=abc")).status == 400


@pytest.mark.rule("HTTP-10", "RESUME-1")
async def test_other_rights_than_before_start_over(world: HttpWorld) -> None:
    """What a reader of more has stays nobody's who may read less, and one who may read more gets what it lacks."""
    for id_ in ("urn:a:1", "urn:b:1"):
        await world.put(id_, 1)
    guest, all_ids = Identity.make(), {"urn:a:1": 1, "urn:b:1": 1}
    narrow = await world.space.delegate(guest.did, "read", prefixes=["urn:a:*"], expires=timedelta(hours=1))
    wide = await world.space.delegate(guest.did, "read", expires=timedelta(hours=1))
    reader = EventReader(world, "*")
    for delegation, expected in ((wide, all_ids), (narrow, {"urn:a:1": 1}), (wide, all_ids)):
        await reader.connect(world.token_of(guest, delegations=[text_form.read(delegation)]))
        assert (await reader.until("reset"))["why"] in ("start", "rights")
        await reader.until("ready")
        assert {id_: value for id_, value in reader.map.items() if id_.startswith("urn:")} == expected
        reader.cut()


@pytest.mark.rule("HTTP-10")
async def test_a_stream_ends_with_its_token_its_rights_and_its_server(tmp_path: Path) -> None:
    async with http_world(tmp_path) as world:
        me, guest = world.db.identity, Identity.make()
        await world.space.acl.set(guest.did, "read")
        data = world.token_bytes(me, role="read")
        token = access_token.write_text(data)
        tokens: tuple[str | None, ...] = (token, world.token_of(guest), world.token, None)
        readers = [EventReader(world, "urn:s:*") for _ in tokens]
        for reader, one in zip(readers, tokens, strict=True):
            soon = TimeMs(int(time.time() * 1_000) + 3_000)
            await reader.connect(one or world.token_of(me, expires=soon))
            await reader.until("ready")
        await world.space.revoke(token)
        ended = await readers[0].until("ended")
        assert ended["code"] == "unauthenticated"
        assert ended["message"] == (await world.get("/log", token=token)).json()["detail"], "a 401 says the same"
        await world.space.acl.remove(guest.did)
        assert (await readers[1].until("ended"))["code"] == "forbidden"
        assert (await readers[3].until("ended"))["code"] == "unauthenticated"
        ending = asyncio.create_task(readers[2].until("ended"))
        world.keep_peers()
    assert (await ending)["code"] == "going_away"
    for reader in readers:
        reader.cut()


@pytest.mark.rule("HTTP-2", "HTTP-10")
async def test_streams_are_bounded_and_given_back(tmp_path: Path) -> None:
    async with http_world(tmp_path, http_streams_max=2) as world:
        readers = [EventReader(world, "urn:s:*") for _ in range(2)]
        for reader in readers:
            await reader.connect()
        full = await world.get("/watch?select=urn:s:*")
        assert (full.status, "retry-after" in full.headers) == (503, True)
        readers[0].cut()
        for _ in range(100):
            if (await world.get("/watch?select=urn:s:*&wait=0")).status == 200:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("a stream that was cut is still counted")


@pytest.mark.rule("HTTP-10")
async def test_a_stream_counts_as_a_connection_of_its_principal(tmp_path: Path) -> None:
    async with http_world(tmp_path, connections_per_principal_max=3) as world:
        guest = Identity.make()
        await world.space.acl.set(guest.did, "read")
        readers = [EventReader(world, "urn:s:*") for _ in range(2)]  # beside the owner's WebSocket
        for reader in readers:
            await reader.connect()
        full = await world.get("/watch?select=urn:s:*&wait=0")
        assert (full.status, full.code, "retry-after" in full.headers) == (429, "limit_exceeded", True)
        assert (await world.get("/log")).status == 200, "a request is no stream"
        assert (await world.get("/watch?select=urn:s:*&wait=0", token=world.token_of(guest))).status == 200
        readers[0].cut()
        async with asyncio.timeout(PATIENCE):
            while (await world.get("/watch?select=urn:s:*&wait=0")).status != 200:
                await asyncio.sleep(0.02)


@pytest.mark.rule("HTTP-2", "HTTP-10", "SYNC-6")
async def test_a_stream_that_nobody_reads_is_bounded_and_ends_in_the_same_map(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = list[StreamSocket]()
    sizes = list[int]()

    class Seen(StreamSocket):
        def __init__(self) -> None:
            super().__init__()
            sockets.append(self)

        def send(self, data: Data) -> None:
            super().send(data)
            sizes.append(self.unsent)

    monkeypatch.setattr(watch_routes, "StreamSocket", Seen)
    slow, quick = EventReader(world, "urn:s:*"), EventReader(world, "urn:s:*")
    for reader in (slow, quick):
        await reader.connect()
        await reader.until("ready")
    slow.pause()
    for number in range(40):
        await world.put(f"urn:s:{number % 3}", {"n": number, "text": "x" * 900_000})
        while quick.map.get(f"urn:s:{number % 3}", {}).get("n") != number:
            await quick.until("change")
    assert max(sizes) < 12_000_000, "36 MB were written"
    slow.resume()
    while slow.map != quick.map:
        await slow.until("change")


@pytest.mark.rule("HTTP-10")
@pytest.mark.parametrize("op", ["set", "patch", "delete"])
async def test_what_is_written_and_taken_out_of_the_answer_has_left_and_is_not_updated(
    world: HttpWorld, op: str
) -> None:
    await world.put("urn:l:1", {"n": 1})
    await world.put("urn:l:0", {"next": link("urn:l:1")})
    reader = EventReader(world, "urn:l:0", schema=json.dumps(SCHEMA))
    await reader.connect()
    await reader.until("ready")
    assert reader.map.keys() == {"urn:l:0", "urn:l:1"}
    bodies = {"set": {"body": {"n": 2}}, "patch": {"body": json.loads(PATCH)}, "delete": {}}
    written = {"op": op, "id": "urn:l:1", "blind": True} | bodies[op]
    unlinked = {"op": "set", "id": "urn:l:0", "body": {"n": 0}, "blind": True}
    done = await world.ask("POST", "/commits", {"operations": [written, unlinked]})
    assert done.status == 201, done.body
    change = await reader.until("change")
    assert change["left"] == ["urn:l:1"]
    assert [(one["id"], one["value"]) for one in change["updated"]] == [("urn:l:0", {"n": 0})]
    assert change["entered"] == []


@pytest.mark.rule("HTTP-10")
async def test_a_frame_may_bring_the_fact_of_what_left(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """SYNC-3 allows it. The map is then right whichever list of the event its reader takes first."""
    main, hash_ = BranchName("main"), Hash(bytes(32))
    facts = tuple(
        FactItem(index=n, id=EntityId(f"urn:s:{n}"), kind="set", parent=hash_, body=body.encode(n)) for n in (1, 2)
    )
    commit = CommitItem(version=Version(2), branch=main, author=SPACE, time=TimeMs(1), facts=facts)
    left = (Left(watch=1, branch=main, id=EntityId("urn:s:1")),)
    frame = Sync(from_=Version(1), to=Version(2), hash=hash_, commits=(commit,), left=left)
    calls = list[SpaceCall[Any]]()

    class Seen(ChangeEvents):
        async def of(self, call: SpaceCall[Any], branch: str, data: bytes, frame: Sync) -> StreamEvent:
            calls.append(call)
            return await super().of(call, branch, data, frame)

    monkeypatch.setattr(watch_routes, "_changes", Seen())
    await world.put("urn:s:1", 1)
    await world.get("/watch?select=urn:s:*&wait=5")
    made = await change_of(calls[0], main, frame)
    assert made.event.data["left"] == ["urn:s:1"]
    assert made.event.data["updated"] == [{"id": "urn:s:2", "version": 2, "value": 2}]
    assert (made.is_whole, made.kept_bytes) == (True, len(made.event.text or b"")), "it read nothing"


@pytest.mark.rule("HTTP-10", "ACL-2")
async def test_an_event_made_while_rights_end_is_given_to_nobody_else(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both get one frame with a patch. The first one loses its rights while it reads the value for both."""
    await world.put("urn:s:1", {"n": 1})
    guest, asked = Identity.make(), list[str]()
    await world.space.acl.set(guest.did, "read")
    first, second = EventReader(world, "urn:s:*"), EventReader(world, "urn:s:*")
    for reader, token in ((first, world.token_of(guest)), (second, None)):
        await reader.connect(token)
        await reader.until("ready")
    really_ask, removed = SpaceCall.ask, asyncio.Event()

    async def ask(call: SpaceCall[Any], request: Request) -> Any:
        if isinstance(request, QueryRequest):
            asked.append(call.principal)
            if call.principal == guest.did:
                await world.space.acl.remove(guest.did)
                removed.set()
        return await really_ask(call, request)

    monkeypatch.setattr(SpaceCall, "ask", ask)
    await world.ask("PATCH", "/entity?id=urn:s:1&blind=true", PATCH, Content_Type="application/json-patch+json")
    change = await second.until("change")
    assert removed.is_set()
    assert asked == [guest.did, world.db.identity.did]
    assert [one["value"] for one in change["updated"]] == [{"n": 1, "m": 2}]
    assert second.map == {"urn:s:1": {"n": 1, "m": 2}}


@pytest.mark.rule("HTTP-10")
async def test_an_event_is_made_once_and_kept_up_to_a_bound_of_bytes(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, asked = ChangeEvents(), list[str]()
    monkeypatch.setattr(watch_routes, "_changes", events)
    monkeypatch.setattr(stream_events, "CACHED_BYTES_MAX", 20_000)
    really_ask = SpaceCall.ask

    async def ask(call: SpaceCall[Any], request: Request) -> Any:
        if isinstance(request, QueryRequest):
            asked.append(call.principal)
        return await really_ask(call, request)

    monkeypatch.setattr(SpaceCall, "ask", ask)
    await world.put("urn:s:1", {"text": "x" * 8_000})
    readers = [EventReader(world, "urn:s:*") for _ in range(3)]
    for reader in readers:
        await reader.connect()
        await reader.until("ready")
    for turn in range(4):
        await world.ask("PATCH", "/entity?id=urn:s:1&blind=true", PATCH, Content_Type="application/json-patch+json")
        for reader in readers:
            assert (await reader.until("change"))["updated"][0]["value"]["m"] == 2
        assert len(asked) == turn + 1, "one reading for all streams"
        assert 8_000 < events.held_bytes <= 20_000
    await world.put("urn:s:1", {"text": "x" * 30_000})
    for reader in readers:
        await reader.until("change")
    assert events.held_bytes == 0, "one that is larger is not kept"


@pytest.mark.rule("HTTP-10", "WATCH-2")
async def test_streams_and_websockets_that_watch_the_same_each_get_what_is_theirs(world: HttpWorld) -> None:
    """Each kind is told together, in frames of its own form."""
    readers = [EventReader(world, "urn:s:*") for _ in range(3)]
    async with world.space.live("urn:s:*") as live:
        await live.ready
        for reader in readers:
            await reader.connect()
            await reader.until("ready")
        for number in range(20):
            await world.put(f"urn:s:{number % 4}", number)
            if number == 10:
                readers[0].cut()
                await readers[0].connect()
        expected = {f"urn:s:{number % 4}": number for number in range(16, 20)}
        for reader in readers:
            async with asyncio.timeout(PATIENCE):
                while reader.map != expected:
                    await reader.until("change")
        async with asyncio.timeout(PATIENCE):
            while dict(live) != expected:
                await asyncio.sleep(0.01)


@pytest.mark.rule("HTTP-10")
async def test_a_long_poll_answers_once(world: HttpWorld) -> None:
    await world.put("urn:s:1", 1)
    first = (await world.get("/watch?select=urn:s:*&wait=5")).json()
    assert [one["event"] for one in first["events"]] == ["reset", "change"]
    at_once = (await world.get("/watch?select=urn:s:*&wait=0")).json()
    assert at_once == first, "with no time to wait it tells what is there"
    empty = (await world.get(f"/watch?select=urn:s:*&wait=0&since={first['next']}")).json()
    assert (empty["events"], empty["next"]) == ([], first["next"])
    waiting = asyncio.create_task(world.get(f"/watch?select=urn:s:*&wait=10&since={first['next']}"))
    await asyncio.sleep(0.1)
    await world.put("urn:s:1", 2)
    (change,) = (await waiting).json()["events"]
    assert change["data"]["updated"][0]["value"] == 2
