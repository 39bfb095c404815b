"""Coming back over real sockets: after a break, below the floor, to a restored server, to a restarted one."""

from __future__ import annotations

import copy
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from plain_client import PlainClient
from plain_content import delete_, increment, link_to, patch_, query_of, read_, set_
from plain_world import ServedSpace, agree
from served import config_of, served

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.workers]


class RestartableServer:
    """A server that can be stopped, set back to an earlier state of its data, and started again."""

    def __init__(self, directory: Path) -> None:
        self.data, self.copy = directory / "data", directory / "copy"
        self.address = ""
        self._running = AsyncExitStack()

    async def start(self) -> None:
        self.address = await self._running.enter_async_context(served(config_of(self.data)))

    async def stop(self) -> None:
        await self._running.aclose()

    def back_up(self) -> None:
        shutil.copytree(self.data, self.copy)

    def restore(self) -> None:
        shutil.rmtree(self.data)
        self.copy.rename(self.data)


@pytest_asyncio.fixture(loop_scope="module")
async def server(tmp_path: Path) -> AsyncIterator[RestartableServer]:
    made = RestartableServer(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def writer_and_watcher(served_space: ServedSpace, text: bool = False) -> tuple[PlainClient, PlainClient]:
    """Ten entities, all watched by one of the two."""
    writer, watcher = await served_space.enter(text=text), await served_space.enter(text=text)
    await writer.write_now(*[set_(f"urn:a:{number}", {"n": 0}) for number in range(10)])
    await watcher.watch_filled(1, query_of("urn:a:*"))
    await watcher.watch_filled(2, query_of({"id": "urn:a:0", "schema": True}))
    return writer, watcher


async def moved_to(client: PlainClient, address: str) -> PlainClient:
    """The same session, from now on at another address: where a server that was restarted listens now."""
    client.address = address
    return client


@pytest.mark.rule("RESUME-1", "SYNC-3")
async def test_one_frame_brings_what_was_missed_and_nothing_else(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await writer_and_watcher(served_space, text)
    await watcher.close()
    await writer.write_now(patch_("urn:a:1", increment("/n")), set_("urn:b:1", 1))
    await writer.write_now(delete_("urn:a:2"), set_("urn:a:0", {"next": link_to("urn:b:1")}))
    await writer.write_now(set_("urn:a:new", 1))
    frame = await watcher.resume()
    assert (frame["from"], frame["to"]) == (2, 5)
    assert "reset" not in frame
    told = {item["id"] for item in frame["entered"]} | {fact["id"] for c in frame["commits"] for fact in c["facts"]}
    assert told <= {"urn:a:0", "urn:a:1", "urn:a:2", "urn:a:new", "urn:b:1"}
    assert [(item["watch"], item["id"]) for item in frame["left"]] == [(1, "urn:a:2")]
    assert watcher.heard == ["hello", "sync"]
    await agree(watcher)


@pytest.mark.rule("RESUME-1")
async def test_the_size_of_the_frame_follows_what_changed_and_not_what_is_watched(
    served_space: ServedSpace, text: bool
) -> None:
    writer, watcher = await writer_and_watcher(served_space, text)
    await writer.write_now(*[set_(f"urn:a:many:{number}", "x" * 200) for number in range(1_000)])
    await watcher.reach(3)
    await watcher.close()
    await writer.write_now(patch_("urn:a:1", increment("/n")))
    before = watcher.heard_bytes
    await watcher.resume()
    assert watcher.heard_bytes - before < 5_000
    assert len(watcher.holding.held_by(1)) == 1_010
    await agree(watcher)


@pytest.mark.rule("RESUME-1", "ERASE-1")
async def test_what_was_written_and_erased_meanwhile_is_passed_over(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await writer_and_watcher(served_space, text)
    await watcher.close()
    first = await writer.write_now(set_("urn:a:1", "s3cret"))
    await writer.write_now(set_("urn:a:1", "public"))
    await writer.write("erase", entity="urn:a:1", versions=[first["version"]])
    await watcher.resume()
    assert "s3cret" not in repr(watcher.holding.frames)
    assert watcher.holding.value("urn:a:1") == "public"
    await agree(watcher)


@pytest.mark.rule("RESUME-1")
async def test_one_who_missed_nothing_gets_an_empty_frame(served_space: ServedSpace, text: bool) -> None:
    _, watcher = await writer_and_watcher(served_space, text)
    await watcher.close()
    frame = await watcher.resume()
    assert (frame["from"], frame["to"]) == (2, 2)
    assert not any(frame[name] for name in ("commits", "entered", "left", "verdicts"))
    await agree(watcher)


@pytest.mark.rule("RESUME-1")
async def test_a_watch_that_was_not_filled_comes_whole(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await writer_and_watcher(served_space, text)
    await watcher.close()
    await writer.write_now(patch_("urn:a:1", increment("/n")))
    watcher.holding.watches[1].filled = False
    for held in watcher.holding.entities.values():
        held.watches.discard(1)
    watcher.holding._drop_unwatched()
    await watcher.resume()
    await watcher.filled(1)
    await agree(watcher)


@pytest.mark.rule("RESUME-1", "RESUME-2", "SYNC-2")
async def test_a_verdict_that_was_lost_is_told_in_the_first_frame(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await writer_and_watcher(served_space, text)
    local = await watcher.commit(patch_("urn:a:1", increment("/n"), blind=False))
    await writer.write_now(set_("urn:b:1", 1))
    while (await writer.query(query_of("urn:a:1")))["urn:a:1"][2] == {"n": 0}:
        pass
    watcher.abort()
    frame = await watcher.resume()
    assert [(verdict["verdict"], verdict["local"]) for verdict in frame["verdicts"]] == [("accepted", local)]
    assert watcher.holding.value("urn:a:1") == {"n": 1}
    assert not watcher.holding.pending
    await agree(watcher)


@pytest.mark.rule("SYNC-2")
async def test_facts_of_own_commits_whose_bytes_are_not_held_are_sent(served_space: ServedSpace, text: bool) -> None:
    _, watcher = await writer_and_watcher(served_space, text)
    before = copy.deepcopy(watcher.holding)
    verdict = await watcher.write_now(patch_("urn:a:1", increment("/n")), set_("urn:a:new", 1))
    await watcher.close()
    watcher.holding = before
    frame = await watcher.open(lowest=1, held=[])
    assert [told["hashes"] for told in frame["verdicts"]] == [verdict["hashes"]]
    assert ("urn:a:1", "patch") in [(fact["id"], fact["kind"]) for c in frame["commits"] for fact in c["facts"]]
    assert watcher.holding.value("urn:a:1") == {"n": 1}
    await agree(watcher)


@pytest.mark.rule("SYNC-2", "RESUME-1")
async def test_verdicts_below_the_lowest_undecided_local_are_not_repeated(served_space: ServedSpace) -> None:
    _, watcher = await writer_and_watcher(served_space)
    first = await watcher.write_now(set_("urn:b:1", 1))
    held = (watcher.holding.to, watcher.holding.hash)
    second = await watcher.write_now(set_("urn:b:1", 2))
    await watcher.close()
    watcher.holding.to, watcher.holding.hash = held
    frame = await watcher.open(lowest=first["local"] + 1, held=[])
    assert [verdict["local"] for verdict in frame["verdicts"]] == [second["local"]]
    await watcher.close()
    watcher.holding.to, watcher.holding.hash = held
    frame = await watcher.open(lowest=second["local"] + 1, held=[])
    assert frame["verdicts"] == []


@pytest.mark.rule("RESUME-1", "COMPACT-1")
async def test_below_the_floor_everything_comes_again(served_space: ServedSpace, text: bool) -> None:
    writer, watcher = await writer_and_watcher(served_space, text)
    await watcher.close()
    for _ in range(5):
        await writer.write_now(patch_("urn:a:1", increment("/n")), set_("urn:a:2", {"n": 7}))
    await writer.write_now(delete_("urn:a:3"))
    await writer.write("compact", floor=8)
    frame = await watcher.resume()
    assert (frame["from"], frame["reset"]) == (0, "floor")
    for number in (1, 2):
        await watcher.filled(number)
    assert len(watcher.holding.held_by(1)) == 9
    await agree(watcher)


@pytest.mark.rule("RESUME-1", "RESUME-2", "COMPACT-1")
async def test_what_is_pending_survives_a_reset_to_the_floor(served_space: ServedSpace) -> None:
    writer, watcher = await writer_and_watcher(served_space)
    watcher.abort()
    for _ in range(4):
        await writer.write_now(patch_("urn:a:1", increment("/n")))
    await writer.write("compact", floor=6)
    read = read_(2, entity="urn:a:5", path="/n")
    sent = await pending_only(watcher, patch_("urn:a:5", increment("/n"), blind=False), reads=[read])
    frame = await watcher.resume()
    assert frame["reset"] == "floor"
    assert (await watcher.verdict(sent))["verdict"] == "accepted"
    await agree(watcher)


async def pending_only(client: PlainClient, *operations: dict[str, object], reads: list[dict[str, object]]) -> int:
    """A commit made while there is no connection."""

    async def kept(data: bytes | str) -> None:
        assert data

    client.send_raw, sending = kept, client.send_raw  # type: ignore[method-assign]
    try:
        return await client.commit(*operations, reads=reads)
    finally:
        client.send_raw = sending  # type: ignore[method-assign]


@pytest.mark.rule("RESUME-4")
async def test_a_history_that_the_server_does_not_have_is_told_apart(served_space: ServedSpace, text: bool) -> None:
    _, watcher = await writer_and_watcher(served_space, text)
    await watcher.close()
    for lie in ({"hash": bytes(32)}, {"to": 99}):
        frame = await watcher.open(**lie)
        assert (frame["from"], frame["reset"]) == (0, "history")
        for number in (1, 2):
            await watcher.filled(number)
        await agree(watcher)
        await watcher.close()


@pytest.mark.rule("RESUME-4")
async def test_a_server_restored_from_a_backup_says_what_it_kept(server: RestartableServer, text: bool) -> None:
    served_space = ServedSpace(server.address)
    await served_space.found()
    writer, watcher = await writer_and_watcher(served_space, text)
    kept = await watcher.write_now(patch_("urn:a:1", increment("/n")))
    await server.stop()
    server.back_up()
    await server.start()
    await moved_to(watcher, server.address)
    await watcher.resume()
    lost = await watcher.write_now(patch_("urn:a:1", increment("/n")), set_("urn:a:lost", 1))
    await watcher.write_now(patch_("urn:a:2", increment("/n")))
    await server.stop()
    server.restore()
    await server.start()
    await (await moved_to(writer, server.address)).resume()
    writer.last_local = 50
    await writer.write_now(set_("urn:a:other", 1))
    await moved_to(watcher, server.address)
    frame = await watcher.resume()
    assert (frame["from"], frame["reset"]) == (0, "history")
    session = watcher.holding.session
    told = {(item.get("session", session), item["local"]): item["hash"] for item in frame["kept"]}
    assert told[session, kept["local"]] == kept["hash"]
    assert (writer.holding.session, 1) in told
    assert watcher.holding.lost == [(session, lost["local"]), (session, lost["local"] + 1)]
    for number in (1, 2):
        await watcher.filled(number)
    assert "urn:a:lost" not in watcher.holding.held_by(1)
    await agree(watcher)
    await served_space.close()


@pytest.mark.rule("RESUME-2", "RESUME-3", "COMMIT-5")
async def test_a_server_that_stops_says_so_and_all_goes_on_after_it_starts_again(
    server: RestartableServer, text: bool
) -> None:
    served_space = ServedSpace(server.address)
    await served_space.found()
    writer, watcher = await writer_and_watcher(served_space, text)
    for _ in range(3):
        sent = [await writer.commit(patch_("urn:a:1", increment("/n"))) for _ in range(20)]
        await server.stop()
        for client in (writer, watcher):
            gone = await client.farewell()
            assert (gone.farewell["code"], gone.close_code) == ("going_away", 1001)
        await server.start()
        for client in (writer, watcher):
            client.address = server.address
            await client.resume()
        for local in sent:
            assert (await writer.verdict(local))["verdict"] == "accepted"
    await watcher.reach(writer.holding.to)
    assert watcher.holding.value("urn:a:1") == {"n": 60}
    await agree(watcher)
    assert await watcher.verified() == watcher.holding.hash
    await served_space.close()


@pytest.mark.rule("RESUME-2", "COMMIT-5")
async def test_undecided_commits_of_an_older_session_are_sent_under_their_old_identity(
    served_space: ServedSpace, text: bool
) -> None:
    old = await served_space.enter(text=text)
    await old.write_now(set_("urn:a:1", {"n": 0}))
    local = await old.commit(patch_("urn:a:1", increment("/n")))
    old.abort()
    new = served_space.client(text=text)
    new.holding.pending |= old.holding.pending
    await new.resume()
    verdict = await new.verdict(local, old.holding.session)
    assert verdict["verdict"] == "accepted"
    assert (await new.query(query_of("urn:a:1")))["urn:a:1"][2] == {"n": 1}
