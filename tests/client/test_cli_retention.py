"""The commands on a data directory as a person runs them: answers, exit codes, directories in use, Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path

import apsw
import pytest

from command_line import here, run, start
from engines import engine
from kept_spaces import fill
from space import ALICE, BOB, SPACE, set_
from stemmadb.protocol.model.values import reference
from stemmadb.server.commands import backups
from stemmadb.server.maintenance import restore
from stemmadb.server.storage.port import DiskFull
from stemmadb.server.storage.sqlite import SqliteStorage, sqlite_version


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a space that has one of everything, which nobody uses."""
    storage = SqliteStorage(tmp_path / "data")
    fill(storage.open(SPACE, create=True))
    storage.close()
    return tmp_path / "data"


@pytest.fixture
def held(data: Path) -> Iterator[Path]:
    """The same, in use by another process that has the space open."""
    program = (
        "import sys, pathlib\n"
        "from stemmadb.server.storage.directory import hold\n"
        "from stemmadb.server.storage.sqlite import SqliteStorage\n"
        "data = pathlib.Path(sys.argv[1])\n"
        "held = hold(data)\n"
        "log = SqliteStorage(data).open(sys.argv[2])\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", program, str(data), SPACE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    yield data
    holder.communicate(timeout=20)


def damage(data: Path) -> None:
    connection = apsw.Connection(str(data / "spaces" / SPACE / "space.db"))
    connection.execute("UPDATE fact SET hash = zeroblob(32) WHERE place = 5 << 20")
    connection.close()


@pytest.mark.rule("FACT-3")
def test_verify_says_yes_in_words_and_in_json(data: Path) -> None:
    done = run("verify", "--data", data)
    assert done.code == 0
    assert done.out.startswith(f"{SPACE}: verified, version 23, 22 facts, 2 blobs, b3:")
    told = run("verify", "--data", data, "--space", SPACE, "--json")
    assert (told.code, told.err) == (0, "")
    assert told.json["verified"] is True
    assert [(one["space"], one["version"], one["facts"]) for one in told.json["spaces"]] == [(SPACE, 23, 22)]


@pytest.mark.rule("FACT-3")
def test_verify_of_a_damaged_space_exits_with_1_and_names_the_place(data: Path) -> None:
    storage = SqliteStorage(data)
    storage.open(BOB, create=True)
    storage.close()
    damage(data)
    done = here("verify", "--data", data)
    assert done.code == 1
    assert f"{SPACE}: BROKEN. History does not verify at version 5, commit" in done.out
    assert f"{BOB}: verified" in done.out
    told = here("verify", "--data", data, "--json")
    assert (told.code, told.error, told.json["verified"]) == (1, "broken_chain", False)
    assert told.json["spaces"][0]["error"]["version"] == 5


def test_the_data_directory_is_data_where_one_stands(data: Path) -> None:
    assert run("verify", "--json", cwd=data.parent).json["verified"] is True


def test_a_directory_without_spaces_is_said_to_have_none(tmp_path: Path) -> None:
    for command in ("verify", "spaces"):
        done = here(command, "--data", tmp_path)
        assert (done.code, done.out) == (0, f"There are no spaces in {tmp_path}.\n")


@pytest.mark.parametrize("command", ["verify", "space list", "status", "export out", "backup out"])
def test_a_directory_that_is_not_there_exits_with_3(tmp_path: Path, command: str) -> None:
    words = [word.replace("out", str(tmp_path / "out")) for word in command.split()]
    done = here(*words, "--data", tmp_path / "nowhere", "--json")
    assert (done.code, done.error) == (3, "unavailable")
    assert "nowhere" in done.json["error"]["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["verify", "export out", "backup out"])
def test_a_space_that_is_not_there_exits_with_3(data: Path, command: str) -> None:
    words = [word.replace("out", str(data.parent / "out")) for word in command.split()]
    done = here(*words, "--data", data, "--space", BOB, "--json")
    assert (done.code, done.error) == (1, "unknown_space")
    assert not (data.parent / "out").exists()


@pytest.mark.rule("STORE-4")
def test_commands_that_read_work_on_a_directory_in_use(held: Path, tmp_path: Path) -> None:
    for command in ("verify", "space list", "status", f"backup {tmp_path / 'copy'}", f"export {tmp_path / 'stream'}"):
        done = here(*command.split(), "--data", held, "--json")
        assert done.code == 0, done
        assert [one["space"] for one in done.json["spaces"]] == [SPACE]
    assert here("status", "--data", held, "--json").json["held"] is True
    assert "(in use)" in here("status", "--data", held).out


@pytest.mark.rule("STORE-4")
def test_commands_that_write_refuse_a_directory_in_use(held: Path, tmp_path: Path) -> None:
    here("backup", tmp_path / "copy", "--data", held)
    here("export", tmp_path / "stream", "--data", held)
    for command in (
        f"restore {tmp_path / 'copy'}",
        f"import {tmp_path / 'stream'}",
        f"compact --space {SPACE} --floor 1 --yes",
        f"erase urn:a --version 1 --space {SPACE} --yes",
    ):
        done = here(*command.split(), "--data", held, "--json")
        assert (done.code, done.error) == (3, "directory_held")
        assert "process" in done.json["error"]["message"]


def test_status_and_spaces_tell_what_is_there(data: Path) -> None:
    told = here("status", "--data", data, "--json").json
    assert told["sqlite"] == sqlite_version()
    assert told["held"] is False
    (one,) = told["spaces"]
    assert (one["version"], one["blob_bytes"]) == (23, 102_400)
    assert one["bytes"] > 10_000
    assert f"{SPACE}  version 23" in here("spaces", "--data", data).out
    assert sqlite_version() in here("status", "--data", data).out


def test_a_backup_can_be_verified_and_restored(data: Path, tmp_path: Path) -> None:
    assert "copied, version 23" in here("backup", tmp_path / "copy", "--data", data).out
    assert here("backup", tmp_path / "copy", "--data", data, "--json").json["spaces"][0]["copied"] is False
    assert here("verify", "--data", tmp_path / "copy").code == 0
    assert "restored and verified, version 23" in here("restore", tmp_path / "copy", "--data", tmp_path / "new").out
    assert here("verify", "--data", tmp_path / "new", "--json").json["verified"] is True
    again = here("restore", tmp_path / "copy", "--data", tmp_path / "new", "--json")
    assert (again.code, again.error) == (4, "not_empty")
    none = here("restore", tmp_path / "nothing", "--data", tmp_path / "other", "--json")
    assert (none.code, none.error) == (3, "unavailable")


def test_an_export_is_imported_elsewhere(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "stream.jsonl"
    assert "exported, version 23, 22 facts, 2 blobs" in here("export", file, "--data", data).out
    done = here("import", file, "--data", tmp_path / "new")
    assert "imported and verified, version 23" in done.out
    again = here("import", file, "--data", tmp_path / "new", "--json")
    assert (again.code, again.error) == (4, "not_empty")
    existing = here("export", file, "--data", data, "--json")
    assert (existing.code, existing.error) == (2, "wrong_use")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_each_command_runs_as_a_process(owned: Path, tmp_path: Path) -> None:
    for command in (
        f"backup {tmp_path / 'copy'} --data {owned}",
        f"restore {tmp_path / 'copy'} --data {tmp_path / 'new'}",
        f"compact --space {SPACE} --floor 2 --yes --data {tmp_path / 'new'}",
        f"erase urn:x --version 6 --space {SPACE} --yes --data {tmp_path / 'new'}",
        f"status --data {tmp_path / 'new'}",
    ):
        done = run(*command.split(), "--json")
        assert (done.code, done.err) == (0, ""), done


def test_a_stream_goes_through_a_pipe(data: Path, tmp_path: Path) -> None:
    done = run("export", "-", "--data", data, "--json")
    assert done.code == 0
    assert done.json["end"] is True
    told = run("import", "-", "--data", tmp_path / "new", "--json", stdin=done.out.encode())
    assert told.json["spaces"][0]["version"] == 23


def test_a_bad_stream_is_refused_with_4_and_leaves_nothing(data: Path, tmp_path: Path) -> None:
    whole = here("export", "-", "--data", data).out.encode().splitlines(keepends=True)
    for lines, code in ((whole[:9], "bad_stream"), ([*whole[:4], *whole[5:]], "broken_chain"), ([], "bad_stream")):
        done = here("import", "-", "--data", tmp_path / "new", "--json", stdin=b"".join(lines))
        assert (done.code, done.error) == (4, code)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lock"]
    missing = here("import", tmp_path / "nothing", "--json")
    assert (missing.code, missing.error) == (3, "unavailable")


def test_a_file_that_sqlite_cannot_use_is_told(data: Path) -> None:
    (data / "spaces" / SPACE / "space.db").write_bytes(b"garbage" * 1_000)
    done = here("spaces", "--data", data, "--json")
    assert (done.code, done.error) == (3, "unavailable")
    assert "stemmadb verify" in done.json["error"]["message"]
    assert here("verify", "--data", data, "--json").code == 1


def test_a_full_disk_is_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr(backups, "back_up", fail)
    done = here("backup", data.parent / "copy", "--data", data, "--json")
    assert (done.code, done.error) == (3, "storage_full")


# ---------------------------------------------------------------- Ctrl-C


def test_an_interrupted_import_exits_with_130_and_leaves_nothing(data: Path, tmp_path: Path) -> None:
    lines = run("export", "-", "--data", data).out.encode().splitlines(keepends=True)
    process = start(
        "import", "-", "--data", tmp_path / "new", "--json", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"".join(lines[:10]))
    process.stdin.flush()
    while not list((tmp_path / "new").glob(".incoming-*/spaces/*/space.db")):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["error"]["code"] == "interrupted"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lock"]


def test_an_interrupted_export_leaves_no_file(data: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from stemmadb.server.commands import streams\n"
        "def stop(*_, **__): raise KeyboardInterrupt\n"
        "streams.write_stream = stop\n"
        "from stemmadb.client.cli import main\n"
        "main()\n"
    )
    (tmp_path / "out").mkdir()
    words = ["export", str(tmp_path / "out" / "stream"), "--data", str(data)]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)  # noqa: S603
    assert done.returncode == 130
    assert done.stderr == b"\nError: Interrupted. Nothing was left half done.\n"
    assert list((tmp_path / "out").iterdir()) == []


# ---------------------------------------------------------------- compact and erase


@pytest.fixture
async def owned(tmp_path: Path) -> Path:
    """A directory with a space that has an access list: BOB owns it, ALICE, whose name comes first, writes."""
    storage = SqliteStorage(tmp_path / "data")
    async with engine(storage, access={ALICE: "write", BOB: "own"}) as it:
        for number in range(5):
            await it.must(set_("urn:x", {"secret": f"number {number}"}, blind=True))
    storage.close()
    return tmp_path / "data"


@pytest.mark.rule("COMPACT-1")
def test_compact_drops_old_bodies_and_the_history_verifies(owned: Path) -> None:
    done = here("compact", "--data", owned, "--space", SPACE, "--floor", 5, "--yes", "--json")
    assert (done.code, done.json["floor"], done.json["bodies"]) == (0, 5, 3)
    assert here("verify", "--data", owned).code == 0
    again = here("compact", "--data", owned, "--space", SPACE, "--floor", 5, "--yes")
    assert "compacted to 5, 0 bodies and 0 blobs removed" in again.out
    future = here("compact", "--data", owned, "--space", SPACE, "--floor", 500, "--yes", "--json")
    assert (future.code, future.error) == (1, "future_version")


@pytest.mark.rule("ERASE-1")
def test_erase_destroys_a_value_and_sets_what_survives(owned: Path) -> None:
    words = ("erase", "urn:x", "--data", owned, "--space", SPACE, "--version", 6, "--yes")
    done = here(*words, "--survivor", 'main={"secret": null}', "--as", BOB, "--json")
    assert (done.code, done.json["erased"]) == (0, 1)
    assert here("verify", "--data", owned).code == 0
    held = b"".join(path.read_bytes() for path in owned.rglob("*") if path.is_file())
    assert b"number 4" not in held
    assert b"number 3" in held
    told = here("erase", "urn:x", "--data", owned, "--space", SPACE, "--version", 5, "--yes")
    assert "1 body of urn:x erased, version" in told.out


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--as", ALICE), 4, "forbidden"),
        (("--version", "500"), 1, "future_version"),
        (("--survivor", "main"), 2, "wrong_use"),
        (("--survivor", "main=not json"), 2, "wrong_use"),
        (("--survivor", "main=NaN"), 2, "wrong_use"),
        (("--survivor", "other=1"), 1, "unknown_branch"),
        (("--blob", "b3:x"), 2, "invalid_reference"),
        (("--blob", reference.write(bytes(32))), 1, "unknown_blob"),
        (("--space", BOB), 1, "unknown_space"),
        (("--data", "/nowhere"), 3, "unavailable"),
    ],
)
def test_an_erasure_that_cannot_be_done_is_refused(
    owned: Path, words: tuple[str, ...], code: int, error: str
) -> None:
    done = here("erase", "urn:x", "--version", 6, "--space", SPACE, "--data", owned, *words, "--yes", "--json")
    assert (done.code, done.error) == (code, error)
    assert here("verify", "--data", owned, "--json").json["spaces"][0]["version"] == 6


# ---------------------------------------------------------------- one bad space among others


@pytest.fixture
def one_bad(data: Path) -> Path:
    """A directory with a good space, a damaged one, and one that nobody came to make."""
    storage = SqliteStorage(data)
    storage.open(BOB, create=True)
    storage.close()
    (data / "spaces" / BOB / "space.db").write_bytes(b"garbage" * 1_000)
    (data / "spaces" / ALICE).mkdir()
    (data / "spaces" / ALICE / "space.db").touch()
    return data


@pytest.mark.rule("KEEP-1", "KEEP-2")
@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("spaces", 3, "unavailable"),
        ("status", 3, "unavailable"),
        ("verify", 1, "broken_chain"),
        ("backup out", 3, "unavailable"),
    ],
)
def test_one_bad_space_is_named_and_does_not_hide_the_others(
    one_bad: Path, command: str, code: int, error: str
) -> None:
    words = [word.replace("out", str(one_bad.parent / "out")) for word in command.split()]
    told = here(*words, "--data", one_bad, "--json")
    assert (told.code, told.error) == (code, error)
    found = {one["space"]: one.get("version", one.get("error", {}).get("code")) for one in told.json["spaces"]}
    assert found == {SPACE: 23, BOB: error}
    assert f"{BOB}: {'BROKEN' if code == 1 else 'FAILED'}. " in here(*words, "--data", one_bad).out


@pytest.mark.rule("KEEP-1")
def test_a_space_that_cannot_be_read_now_exits_with_3_and_a_broken_one_beside_it_with_1(data: Path) -> None:
    storage = SqliteStorage(data)
    storage.open(BOB, create=True)
    storage.close()
    file = data / "spaces" / BOB / "space.db"
    file.unlink()
    file.mkdir()
    (file / "in the way").touch()
    told = here("verify", "--data", data, "--json")
    assert (told.code, told.error, told.json["verified"]) == (3, "unavailable", False)
    damage(data)
    told = here("verify", "--data", data, "--json")
    assert (told.code, told.error) == (1, "broken_chain")


@pytest.mark.rule("KEEP-2")
def test_a_backup_that_would_become_worse_is_refused_with_4(data: Path, tmp_path: Path) -> None:
    here("backup", tmp_path / "copy", "--data", data)
    connection = apsw.Connection(str(data / "spaces" / SPACE / "space.db"))
    connection.execute("UPDATE blob SET created = created + 1 WHERE data IS NOT NULL")
    connection.close()
    done = here("backup", tmp_path / "copy", "--data", data, "--json")
    assert (done.code, done.error) == (4, "broken_chain")
    assert here("verify", "--data", tmp_path / "copy").code == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_while_files_are_copied_is_told_with_the_target(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, "no room")

    here("backup", tmp_path / "copy", "--data", data)
    monkeypatch.setattr(shutil, "copyfile", fail)  # a blob of a backup
    monkeypatch.setattr(restore, "copy_regular", fail)
    for words in (
        ("backup", tmp_path / "other", "--data", data),
        ("restore", tmp_path / "copy", "--data", tmp_path / "other"),
    ):
        done = here(*words, "--json")
        assert (done.code, done.error) == (3, "storage_full")
        assert str(tmp_path / "other") in done.json["error"]["message"]


@pytest.mark.parametrize(
    "words", [("compact", "--floor", "2", "--yes"), ("erase", "urn:x", "--version", "6", "--yes")]
)
def test_an_interrupted_compact_or_erase_does_not_say_that_nothing_was_done(
    owned: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def interrupt(work: Coroutine[object, object, object]) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run", interrupt)
    done = here(*words, "--data", owned, "--space", SPACE)
    assert done.code == 130
    assert "Run it again to be sure." in done.err
    assert "half done" not in done.err


@pytest.mark.parametrize("words", [("compact", "--floor", "5"), ("erase", "urn:x", "--version", "6")], ids=" ".join)
def test_what_cannot_be_undone_wants_yes_where_nobody_can_be_asked(owned: Path, words: tuple[str, ...]) -> None:
    for more in ((), ("--json",)):
        done = here(*words, "--data", owned, "--space", SPACE, *more)
        assert done.code == 2
        assert "confirm with --yes" in done.out + done.err
    assert here("verify", "--data", owned, "--json").json["spaces"][0]["version"] == 6


def test_a_dry_run_counts_what_would_go_and_removes_nothing(owned: Path) -> None:
    words = ("--data", owned, "--space", SPACE)
    would = here("compact", "--floor", 5, "--dry-run", *words, "--json").json
    assert (would["dry_run"], would["version"], would["floor"], would["bodies"]) == (True, None, 5, 3)
    assert (
        "would be compacted to 5, 3 bodies and 0 blobs would go"
        in here("compact", "--floor", 5, "--dry-run", *words).out
    )
    erased = here("erase", "urn:x", "--version", 6, "--dry-run", *words)
    assert (erased.code, erased.out) == (0, f"{SPACE}: 1 body of urn:x would be erased\n")
    assert here("verify", "--data", owned, "--json").json["spaces"][0]["version"] == 6
    assert here("compact", "--floor", 5, "--yes", *words, "--json").json["bodies"] == would["bodies"]


def test_a_floor_can_be_an_age(owned: Path) -> None:
    words = ("compact", "--data", owned, "--space", SPACE, "--dry-run", "--json")
    assert here(*words, "--older-than", "0s").json["floor"] == 6
    assert here(*words, "--older-than", "1").error == "wrong_use"
    assert here(*words, "--older-than", "30d", "--floor", 2).error == "wrong_use"
    assert here(*words).error == "wrong_use"
