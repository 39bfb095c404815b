"""The blocking client on a real server: a script, from the first write to the last blob."""

from __future__ import annotations

import io
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from served import Process
from stemmadb.client.dialing.websocket import WebSocketDial
from stemmadb.client.journal.port import ConfirmedCommit
from stemmadb.client.sync import ClientSettings, Database, Refused, Space, Transaction, connect
from stemmadb.protocol.errors import (
    Conflict,
    GoingAway,
    NotFound,
    OutOfOrder,
    StemmaError,
    TimedOut,
    Unconfirmed,
    UnknownBlob,
    UnknownBranch,
    Unreachable,
)
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import Channel

PATIENCE = 10.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("server") / "data")
    process.start()
    yield process
    assert process.stop() == 0


@pytest.fixture
def db(server: Process, tmp_path: Path) -> Iterator[Database]:
    with connect(server.address, config=tmp_path / "config") as db:
        yield db
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stemmadb")]


@pytest.fixture
def space(db: Database) -> Space:
    return db.space("todo")


def wrote(space: Space, id_: str, value: object) -> int:
    with space.transaction() as tx:
        tx.set(id_, value)
    return tx.confirmed(timeout=PATIENCE)


# ---------------------------------------------------------------- the script of the documentation


def test_the_first_five_minutes_of_a_script(server: Process, tmp_path: Path) -> None:
    with connect(server.address, config=tmp_path) as db:
        space = db.space("todo")
        with space.transaction(note="begin") as tx:
            tx.set("urn:todo:1", {"title": "write the spec", "done": False})
        assert tx.status in ("pending", "confirmed")
        tx.confirmed()
        for change in space.watch("urn:todo:*", schema={"properties": {"done": {"const": False}}}):
            assert list(change.entered) == ["urn:todo:1"]
            break
        assert tx.version is not None
        assert space.at(version=tx.version).get("urn:todo:1", "/title") == "write the spec"
        draft = space.branch("draft", create=True)
        with draft.transaction() as on_draft:
            on_draft.patch("urn:todo:1", [{"op": "replace", "path": "/done", "value": True}])
        report = draft.merge_into("main")
        assert report.conflicts == ()
        assert space.get("urn:todo:1") == {"title": "write the spec", "done": True}


async def test_it_works_inside_a_notebook_whose_loop_runs(server: Process, tmp_path: Path) -> None:
    db = connect(server.address, config=tmp_path)
    space = db.space("todo")
    assert wrote(space, "urn:todo:1", 1) == 2
    db.close()
    db.close()


def test_names_and_identities_are_those_of_the_other_client(db: Database, space: Space) -> None:
    assert db.identity.did in repr(db)
    assert db.space(space.did).did == space.did == db.space("todo").did
    assert space.branch_name == "main"
    assert repr(space) == f"Space({space.did}, branch 'main')"


# ---------------------------------------------------------------- writing


def test_every_kind_of_write(space: Space) -> None:
    with space.transaction() as tx:
        tx.create("urn:a", {"n": 1, "gone": True})
        tx.set("urn:b", [1])
        tx.set("urn:c", "x", blind=True)
    tx.applied()
    tx.journaled(timeout=PATIENCE)
    tx.confirmed(timeout=PATIENCE)
    with space.transaction() as second:
        assert second.get("urn:a", "/n") == 1
        assert set(second.list("urn:*")) == {"urn:a", "urn:b", "urn:c"}
        second.increment("urn:a", "/n", by=4)
        second.update("urn:b", [1, 2])
        second.delete("urn:c")
    assert second.confirmed() == second.version
    assert space.list("urn:*") == {"urn:a": {"n": 5, "gone": True}, "urn:b": [1, 2]}
    assert repr(second) == f"Transaction(confirmed, version {second.version})"


def test_a_block_that_raises_writes_nothing(space: Space) -> None:
    def write() -> None:
        with space.transaction() as tx:
            tx.set("urn:a", 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert space.get("urn:a") is None


def test_a_function_is_run_again_here_on_a_conflict(db: Database, space: Space) -> None:
    wrote(space, "urn:n", {"count": 0})
    runs: list[str] = []

    def count(tx: Transaction) -> str:
        runs.append(threading.current_thread().name)
        value = tx.get("urn:n")
        assert isinstance(value, dict)
        if len(runs) == 1:
            wrote(space, "urn:n", {"count": 10})
        tx.set("urn:n", {"count": value["count"] + 1})  # type: ignore[operator]
        return "counted"

    assert space.transact(count) == "counted"
    assert runs == [threading.current_thread().name] * 2
    assert space.get("urn:n") == {"count": 11}


def test_what_the_function_raises_ends_it(space: Space) -> None:
    def fail(tx: Transaction) -> None:
        tx.set("urn:n", 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        space.transact(fail)
    assert space.get("urn:n") is None


def refuse(space: Space) -> Transaction:
    """A commit that will be refused, since another one came first."""
    wrote(space, "urn:n", 1)
    with space.transaction() as late:
        late.get("urn:n")
        wrote(space, "urn:n", 2)
        late.set("urn:n", 3)
    return late


def test_a_refused_commit_explains_itself_and_is_retried(space: Space) -> None:
    late = refuse(space)
    with pytest.raises(Conflict):
        late.confirmed(timeout=PATIENCE)
    assert late.status == "rejected"
    (refused,) = space.rejected()
    assert late.rejection is not None
    assert late.rejection.name == refused.name
    assert (refused.code, refused.branch, refused.rejected_because_of, refused.note) == (
        "conflict",
        "main",
        None,
        {},
    )
    assert refused.message == str(refused.error)
    assert refused.operations == [{"op": "set", "id": "urn:n", "value": 3}]
    assert [one.id for one in refused.stale] == ["urn:n"]
    assert refused.current == {"urn:n": 2}
    assert refused.decided == space.status().local_head
    assert refused.time.tzinfo is not None
    assert "conflict" in repr(refused)
    again = refused.retry()
    assert again.confirmed(timeout=PATIENCE) > refused.decided
    assert space.get("urn:n") == 3
    assert not space.rejected()


def test_a_refused_commit_is_dropped(space: Space) -> None:
    late = refuse(space)
    with pytest.raises(Conflict):
        late.confirmed(timeout=PATIENCE)
    (refused,) = space.rejected()
    refused.drop()
    assert not space.rejected()


def test_a_refusal_that_nobody_awaits_is_told_on_a_thread_where_the_database_can_be_used(space: Space) -> None:
    told: list[tuple[str, str, object]] = []
    done = threading.Event()

    def note(refused: Refused) -> None:
        told.append((refused.code, threading.current_thread().name, space.get("urn:n")))
        done.set()

    stop = space.on_rejected(note)
    refuse(space)
    assert done.wait(PATIENCE)
    stop()
    space.on_rejected(lambda _: None)
    refuse(space)
    space.settled(timeout=PATIENCE)
    assert len(told) == 1
    code, thread, value = told[0]
    assert (code, value) == ("conflict", 2)
    assert thread not in ("stemmadb", threading.current_thread().name)


# ---------------------------------------------------------------- watching


def test_a_watch_is_iterated_and_ends_with_its_block(space: Space) -> None:
    with space.watch("urn:*") as watch:
        first = next(watch)
        assert not first
        assert watch.is_filled
        wrote(space, "urn:a", 1)
        assert watch.next(timeout=PATIENCE).entered == {"urn:a": 1}
        with pytest.raises(TimedOut, match="within 10 ms"):
            watch.next(timeout=0.01)
        wrote(space, "urn:a", 2)
        assert next(watch).updated == {"urn:a": 2}
    assert list(watch) == []
    with pytest.raises(GoingAway):
        watch.next()


def test_a_loop_over_a_watch_in_another_thread_ends_with_the_client(server: Process, tmp_path: Path) -> None:
    db = connect(server.address, config=tmp_path)
    space = db.space("todo")
    seen: list[object] = []
    begun = threading.Event()

    def look() -> None:
        for change in space.watch("urn:*"):
            seen.append(change)
            begun.set()

    thread = threading.Thread(target=look)
    thread.start()
    assert begun.wait(PATIENCE)
    db.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert len(seen) == 1


# ---------------------------------------------------------------- the past


def test_history_log_diff_and_blame(space: Space) -> None:
    first = wrote(space, "urn:a", {"n": 1})
    second = wrote(space, "urn:a", {"n": 2})
    history = space.history("urn:a")
    assert "None" in repr(history)
    assert [entry.version for entry in history] == [second, first]
    assert history.version == second
    assert [entry.version for entry in space.history("urn:a", order="oldest").all(limit=1)] == [first]
    newest = space.log().first()
    assert newest is not None
    assert newest.version == second
    then = space.at(version=first)
    assert (then.branch, then.version, then.settled()) == ("main", first, first)
    assert then.list() == {"urn:a": {"n": 1}, space.did: space.acl.get().roles}
    assert then.query("urn:*").entities == {"urn:a": {"n": 1}}
    assert [entry.version for entry in then.history("urn:a")] == [first]
    assert [line.version for line in then.blame("urn:a")] == [first]
    assert [line.version for line in space.blame("urn:a")] == [second]
    assert [change.id for change in space.diff(then)] == ["urn:a"]
    assert not space.diff(second, second)
    assert space.query("urn:*").version == second
    with pytest.raises(NotFound):
        list(space.history("urn:none"))


def test_branches_tags_and_taking_back(space: Space) -> None:
    version = wrote(space, "urn:a", 1)
    space.tags.create("v1")
    assert [tag.version for tag in space.tags.list()] == [version]
    assert space.at(tag="v1").get("urn:a") == 1
    space.tags.delete("v1")
    assert not space.tags.list()
    draft = space.branch("draft", create=True)
    assert draft.branch_name == "draft"
    wrote(draft, "urn:a", 2)
    assert space.merge_from("draft", dry_run=True).writes_count == 1
    assert space.merge_from("draft", note="done").version is not None
    assert space.get("urn:a") == 2
    space.delete_branch("draft")
    assert [branch.name for branch in space.branches()] == ["main"]
    assert len(space.branches(deleted=True)) == 2
    with pytest.raises(UnknownBranch):
        space.branch("none")
    third = wrote(space, "urn:b", 1)
    assert space.revert(third, dry_run=True).writes_count == 1
    space.undo()
    assert space.get("urn:b") is None
    space.redo()
    assert space.get("urn:b") == 1


def test_erasing_and_compacting(space: Space) -> None:
    first = wrote(space, "urn:a", "secret")
    second = wrote(space, "urn:a", "public")
    erased = space.erase("urn:a", [first])
    assert (erased.erased, erased.owes_scrub) == (1, False)
    assert space.compact(second).floor == second


# ---------------------------------------------------------------- blobs


def test_blobs_go_up_from_bytes_files_and_iterables_and_come_down_again(space: Space, tmp_path: Path) -> None:
    data = bytes(range(256)) * 9_000
    threads: set[str] = set()
    done: list[tuple[int, int]] = []

    def pieces() -> Iterator[bytes]:
        threads.add(threading.current_thread().name)
        yield data[:1_000_000]
        yield data[1_000_000:]

    def progress(sent: int, total: int) -> None:
        threads.add(threading.current_thread().name)
        done.append((sent, total))

    ref = space.blobs.put(pieces(), content_type="x/y", progress=progress)
    assert done[-1] == (len(data), len(data))
    (tmp_path / "a.txt").write_bytes(data)
    assert space.blobs.put(tmp_path / "a.txt").hash == ref.hash
    assert space.blobs.put(io.BytesIO(data)).hash == ref.hash
    assert space.blobs.put(data).hash == ref.hash
    assert space.blobs.stat(ref).size == len(data)
    done.clear()
    assert space.blobs.get(ref.hash, progress=progress) == data
    assert done[-1] == (len(data), len(data))
    assert space.blobs.get(ref, to=tmp_path / "b").read_bytes() == data
    done.clear()
    assert b"".join(space.blobs.stream(ref, progress=progress)) == data
    assert len(done) > 1
    assert b"".join(space.blobs.stream(ref)) == data
    assert threads == {threading.current_thread().name}
    with pytest.raises(UnknownBlob):
        space.blobs.get("b3:" + "a" * 52)


def test_a_progress_callback_that_raises_ends_the_upload(space: Space) -> None:
    def stop(sent: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        space.blobs.put(b"x", progress=stop)


def test_an_iterable_that_raises_ends_the_upload(space: Space) -> None:
    def fail() -> Iterator[bytes]:
        yield b"x"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        space.blobs.put(fail())


def test_a_text_is_no_blob(space: Space) -> None:
    with pytest.raises(StemmaError, match="a blob is bytes"):
        space.blobs.put("text")  # type: ignore[arg-type]


# ---------------------------------------------------------------- access


def test_rights_are_given_delegated_and_taken(server: Process, space: Space, tmp_path: Path) -> None:
    with connect(server.address, config=tmp_path / "other") as other:
        token = space.delegate(other.identity.did, "read", expires=timedelta(hours=1))
        with connect(server.address, config=tmp_path / "other", delegations=[token]) as delegated:
            assert delegated.space(space.did).list("urn:*") == {}
        space.revoke(token)
        space.acl.set(other.identity.did, "write")
        assert space.acl.get().roles[other.identity.did] == "write"
        wrote(other.space(space.did), "urn:theirs", 1)
        space.acl.remove(other.identity.did)
        assert other.identity.did not in space.acl.get().roles
    assert space.get("urn:theirs") == 1


# ---------------------------------------------------------------- how it stands, and the end


def test_status_and_pending_while_the_server_is_away(tmp_path: Path) -> None:
    process = Process(tmp_path / "data")
    process.start()
    with connect(process.address, config=tmp_path / "config", journal=tmp_path / "journal") as db:
        space = db.space("todo")
        space.connected(timeout=PATIENCE)
        assert space.status().connection == "open"
        process.kill()
        with space.transaction(note="kept") as tx:
            tx.set("urn:a", 1, blind=True)
        tx.journaled(timeout=PATIENCE)
        with pytest.raises(TimedOut):
            tx.confirmed(timeout=0.01)
        with pytest.raises(TimedOut):
            space.settled(timeout=0.01)
        (pending,) = space.pending()
        assert (pending.ids, pending.branch, pending.is_journaled, pending.applies) == (
            ("urn:a",),
            "main",
            True,
            True,
        )
        assert pending.note == {"message": "kept"}
        assert pending.age_seconds >= 0
        assert "urn:a" in repr(pending)
        with pytest.raises(TimedOut):
            pending.confirmed(timeout=0.01)
        assert tx.status == "pending"
        space.nudge()
    assert tx.status == "pending"


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with (
        connect("ws://127.0.0.1:1", config=tmp_path) as db,
        pytest.raises(Unreachable, match="nothing listens there"),
    ):
        db.space("todo")


def test_after_the_end_everything_says_so(server: Process, tmp_path: Path) -> None:
    db = connect(server.address, config=tmp_path)
    space = db.space("todo")
    watch = space.watch("urn:*")
    version = wrote(space, "urn:a", 1)
    db.close()
    with pytest.raises(OutOfOrder, match="The database was closed"):
        space.get("urn:a")
    with pytest.raises(OutOfOrder, match="The database was closed"):
        db.space("todo")
    watch.close()
    assert list(watch) == []
    assert version == 2


def test_the_block_of_a_database_lets_the_apps_own_error_through(server: Process, tmp_path: Path) -> None:
    db = connect(server.address, config=tmp_path)

    def fail() -> None:
        with db:
            db.space("todo")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with db:
        pass


def test_the_block_reports_work_that_nothing_keeps_unless_the_app_has_failed_itself(tmp_path: Path) -> None:
    process = Process(tmp_path / "data")
    process.start()
    hasty = ClientSettings(close_seconds=0.2)
    db, other = (connect(process.address, config=tmp_path / "config", settings=hasty) for _ in range(2))
    space, same = db.space("todo"), other.space("todo")
    process.kill()
    with pytest.raises(Unconfirmed, match="1 commits had no verdict"), db, space.transaction() as tx:
        tx.set("urn:a", 1, blind=True)

    def fail() -> None:
        with other:
            with same.transaction() as tx:
                tx.set("urn:a", 1, blind=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stemmadb")]


def test_ctrl_c_leaves_a_loop_over_a_watch_and_the_script_goes_on(space: Space) -> None:
    told = threading.Event()

    def press() -> None:
        assert told.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    def look() -> None:
        for _ in space.watch("urn:*"):
            told.set()

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        look()
    thread.join()
    assert wrote(space, "urn:a", 1) == 2


def test_what_a_restored_server_lost_is_told(tmp_path: Path) -> None:
    process, told, lost = Process(tmp_path / "data"), threading.Event(), list[int]()

    def note(commit: ConfirmedCommit) -> None:
        lost.append(commit.version)
        told.set()

    process.start()
    with connect(process.address, config=tmp_path / "config", dial=lambda space: dial_now(process, space)) as db:
        space = db.space("todo")
        stop = space.on_lost(note)
        process.stop()
        shutil.copytree(tmp_path / "data", tmp_path / "backup")
        process.start()
        space.nudge()
        version = wrote(space, "urn:a", 1)
        process.stop()
        shutil.rmtree(tmp_path / "data")
        shutil.copytree(tmp_path / "backup", tmp_path / "data")
        process.start()
        space.nudge()
        assert told.wait(PATIENCE)
        assert space.status().lost == 1
    stop()
    assert lost == [version]
    process.stop()


async def dial_now(process: Process, space: Did) -> Channel:
    return await WebSocketDial(process.address)(space)


@pytest.mark.rule("WATCH-4", "NURSERY-4")
def test_a_live_map_and_a_window_for_code_that_blocks(space: Space) -> None:
    with space.transaction() as tx:
        assert tx.get("urn:card:1", default={"rank": 0}) == {"rank": 0}
        for number in range(4):
            tx.set(f"urn:card:{number}", {"rank": number})
    tx.confirmed()
    found = space.query("urn:card:*", order="-/rank", limit=2)
    assert list(found) == ["urn:card:3", "urn:card:2"]
    rest = space.at().query("urn:card:*", order="-/rank", limit=2, after=found.after)
    assert list(rest) == ["urn:card:1", "urn:card:0"]
    called = threading.Event()
    with space.live("urn:card:*", order="-/rank", limit=2) as cards:
        cards.ready(timeout=30)
        assert (cards.state, cards.as_of, len(cards)) == ("live", None, 2)
        assert dict(cards.items()) == {"urn:card:3": {"rank": 3}, "urn:card:2": {"rank": 2}}
        stop = cards.on_change(lambda _: called.set())
        with space.transaction() as tx:
            tx.set("urn:card:0", {"rank": 9})
        tx.confirmed()
        assert called.wait(30)
        assert (list(cards), cards["urn:card:0"]) == (["urn:card:0", "urn:card:3"], {"rank": 9})
        stop()
    assert cards.state == "ended"
