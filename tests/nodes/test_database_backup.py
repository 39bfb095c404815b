"""The backup of a database is a set of exports: later ones add what came since, and a restore brings all back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import postgres_server
from appends import append_to
from command_line import here
from kept_spaces import SECRET, blob_of, fill
from logs import LogMaker
from node_processes import url_of
from space import ALICE, SPACE, set_
from stemmadb.client.cli import exits
from stemmadb.protocol.errors import BrokenChain, NotEmpty, StemmaError
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, TimeMs, Version
from stemmadb.server.maintenance import manifest
from stemmadb.server.maintenance.backup_exports import back_up_database
from stemmadb.server.storage.port import SpaceLog
from stemmadb.server.storage.postgres import PostgresStorage


class World:
    """A database with a space that has one of everything, and the directory of its backups."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url_of(url)
        self.target = directory / "backup"
        self.storage = PostgresStorage(url)
        self.log: SpaceLog = self.storage.open(SPACE, create=True)
        self.maker = fill(self.log)

    def commit(self, *values: int) -> None:
        at = self.maker.version
        made = [self.maker.commit(set_("urn:more", value, blind=True)) for value in values]
        append_to(self.log, at, made)

    def back_up(self) -> list[bool]:
        done = back_up_database(self.storage_to_read(), self.target, now=lambda: TimeMs(1))
        return [one.is_new for one in done]

    def storage_to_read(self) -> PostgresStorage:
        if not hasattr(self, "_reading"):
            self._reading = PostgresStorage(self.url, read_only=True)
        return self._reading

    def parts(self) -> list[dict[str, Any]]:
        told = json.loads((self.target / "manifest.json").read_text())
        return list(told["spaces"][0]["parts"])

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.target / "exports" / SPACE).iterdir()}

    def close(self) -> None:
        self.storage_to_read().close()
        self.storage.close()


@pytest.fixture
def world(url: str, tmp_path: Path) -> Iterator[World]:
    made = World(url, tmp_path)
    yield made
    made.close()


def ranges(world: World) -> list[tuple[int, int]]:
    return [(part["after"], part["version"]) for part in world.parts()]


def stream_of(source: Path | str, into: Path) -> bytes:
    words = ("--storage", source) if isinstance(source, str) else ("--data", source)
    done = here("export", into, *words)
    assert done.code == 0, done.err
    return into.read_bytes()


@pytest.mark.rule("KEEP-2")
def test_a_later_backup_adds_what_came_since_and_all_of_it_comes_back(world: World, tmp_path: Path) -> None:
    first = here("backup", world.target, "--storage", world.url, "--json")
    assert (first.code, first.json["spaces"][0]["copied"]) == (0, True), first.err
    assert ranges(world) == [(0, 23)]
    assert here("backup", world.target, "--storage", world.url, "--json").json["spaces"][0]["copied"] is False
    before = world.files()
    world.commit(1, 2)
    world.log.put_blob(blob_of(b"another"), b"another")
    assert world.back_up() == [True]
    assert ranges(world) == [(0, 23), (23, 25)]
    assert before.items() <= world.files().items()
    assert b"another" not in b"".join(before.values())
    now = stream_of(world.url, tmp_path / "now.jsonl")
    restored = here("restore", world.target, "--data", tmp_path / "data", "--json")
    assert restored.code == 0, restored.err
    assert stream_of(tmp_path / "data", tmp_path / "directory.jsonl") == now
    with postgres_server.own_database(is_empty=True) as empty:
        (tmp_path / "blobs").mkdir()
        place = ("--storage", url_of(empty), "--blobs", tmp_path / "blobs")
        assert here("restore", world.target, *place).code == 0
        assert here("export", tmp_path / "database.jsonl", *place).code == 0
        assert (tmp_path / "database.jsonl").read_bytes() == now
        again = here("restore", world.target, *place, "--json")
        assert (again.code, again.error) == (exits.REFUSED, "not_empty")


@pytest.mark.rule("KEEP-2", "ERASE-1")
def test_no_later_backup_holds_what_was_erased(url: str, tmp_path: Path) -> None:
    storage, reading = PostgresStorage(url), PostgresStorage(url, read_only=True)
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    append_to(log, EMPTY_SPACE, [maker.commit(set_("urn:secret", SECRET, blind=True))])

    def backed_up() -> bytes:
        back_up_database(reading, tmp_path / "backup", now=lambda: TimeMs(1))
        return b"".join(path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file())

    before = backed_up()
    append_to(log, Version(1), [maker.erase("urn:secret", [1])])
    after = backed_up()
    body = next(json.loads(line)["facts"][0]["body"] for line in before.splitlines() if b'"commit"' in line)
    assert body.encode() in before
    assert body.encode() not in after
    assert len(list((tmp_path / "backup" / "exports" / SPACE).iterdir())) == 1
    reading.close()
    storage.close()


@pytest.mark.rule("KEEP-2")
def test_a_space_whose_blobs_went_is_exported_whole(world: World) -> None:
    world.log.put_blob(blob_of(b"unwanted"), b"unwanted")
    world.back_up()
    world.log.drop_blobs([blob_of(b"unwanted").hash])
    world.commit(1)
    assert world.back_up() == [True]
    assert ranges(world) == [(0, 24)]
    assert len(world.files()) == 1


@pytest.mark.rule("KEEP-2")
def test_an_interrupted_backup_is_the_older_one(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world.back_up()
    world.commit(1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(manifest, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.back_up()
    assert ranges(world) == [(0, 23)]
    restored = here("restore", world.target, "--data", tmp_path / "data", "--json")
    assert restored.json["spaces"][0]["version"] == 23
    assert world.back_up() == [True]
    assert len(world.files()) == len(world.parts())


@pytest.mark.rule("KEEP-2")
def test_a_history_that_is_another_one_leaves_the_backup_as_it_is(world: World) -> None:
    world.commit(1)
    world.back_up()
    before = world.files()
    with psycopg.connect(world.storage._dsn, autocommit=True) as connection:  # a promotion lost a commit
        connection.execute("DELETE FROM stemmadb.fact WHERE place >> 20 = 24")
        connection.execute("DELETE FROM stemmadb.commit WHERE version = 24")
        connection.execute(
            "UPDATE stemmadb.tip AS t SET version = 23, hash = c.hash, owner = NULL FROM stemmadb.commit AS c "
            "WHERE c.space = t.space AND c.version = 23"
        )
    with pytest.raises(NotEmpty):
        world.back_up()
    assert world.files() == before


def test_a_backup_of_another_kind_is_left_alone(world: World, tmp_path: Path) -> None:
    world.back_up()
    assert here("verify", "--data", world.target).code == exits.WRONG_USE
    (tmp_path / "data" / "spaces").mkdir(parents=True)
    refused = here("backup", world.target, "--data", tmp_path / "data", "--json")
    assert (refused.code, refused.error) == (exits.REFUSED, "not_empty")
    assert here("backup", tmp_path / "other", "--data", tmp_path / "data").code == 0
    refused = here("backup", tmp_path / "other", "--storage", world.url, "--json")
    assert (refused.code, refused.error) == (exits.REFUSED, "not_empty")
    refused = here("restore", tmp_path / "other", "--storage", world.url)
    assert refused.code == exits.WRONG_USE
    assert "stemmadb import" in refused.err


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "a byte": lambda data: data.replace(b'"kind":"set"', b'"kind":"sat"', 1),
    "the end": lambda data: data[:-20],
    "a line": lambda data: b"".join(data.splitlines(keepends=True)[:-2]),
}


@pytest.mark.rule("KEEP-2", "KEEP-3")
@pytest.mark.parametrize("what", SPOILT)
@pytest.mark.parametrize("part", [0, 1])
def test_a_spoilt_stream_brings_nothing_back(world: World, tmp_path: Path, what: str, part: int) -> None:
    world.back_up()
    world.commit(1, 2)
    world.back_up()
    path = world.target / "exports" / SPACE / world.parts()[part]["file"]
    spoilt = SPOILT[what](path.read_bytes())
    path.write_bytes(spoilt)
    told = json.loads((world.target / "manifest.json").read_text())
    told["spaces"][0]["parts"][part]["bytes"] = len(spoilt)
    (world.target / "manifest.json").write_text(json.dumps(told))
    refused = here("restore", world.target, "--data", tmp_path / "data", "--json")
    assert refused.code == exits.REFUSED
    assert not list((tmp_path / "data").glob("spaces/*"))


@pytest.mark.parametrize("bad", ["../../x.jsonl", "/etc/passwd", "x"])
def test_a_manifest_names_files_beside_it_only(world: World, tmp_path: Path, bad: str) -> None:
    world.back_up()
    told = json.loads((world.target / "manifest.json").read_text())
    told["spaces"][0]["parts"][0]["file"] = bad
    (world.target / "manifest.json").write_text(json.dumps(told))
    assert here("restore", world.target, "--data", tmp_path / "data", "--json").error == "broken_chain"


@pytest.mark.rule("KEEP-2")
def test_a_space_that_does_not_verify_keeps_its_older_copy_and_others_go_on(world: World) -> None:
    world.storage.open(ALICE, create=True).close()
    world.back_up()
    world.commit(1)
    with psycopg.connect(world.storage._dsn, autocommit=True) as connection:
        connection.execute("UPDATE stemmadb.fact SET body = body || 'x' WHERE place >> 20 = 24")
    found: list[StemmaError] = []
    back_up_database(
        world.storage_to_read(),
        world.target,
        now=lambda: TimeMs(1),
        failed=lambda _, error: found.append(error),  # type: ignore[arg-type]
    )
    assert [type(error) for error in found] == [BrokenChain]
    told = json.loads((world.target / "manifest.json").read_text())
    assert sorted((one["space"], one["version"]) for one in told["spaces"]) == sorted([(SPACE, 23), (ALICE, 0)])
