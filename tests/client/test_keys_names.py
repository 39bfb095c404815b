"""Names of spaces: the first one to be remembered wins, on each server for itself (NAME-1)."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stemmadb.client.dialing.urls import ServerUrl
from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.name_book import NamedSpace
from stemmadb.client.keys.names import FILE_BYTES_MAX, Names
from stemmadb.protocol.errors import InvalidDid, InvalidName, Malformed, NewerStorage
from stemmadb.protocol.model.values.ids import Did

HERE = "ws://127.0.0.1:8420"
SERVER, OTHER = Identity.from_seed(b"8" * 32).did, Identity.from_seed(b"9" * 32).did
FIRST, SECOND = Identity.from_seed(b"1" * 32).did, Identity.from_seed(b"2" * 32).did


def test_a_name_is_found_again_and_means_the_first_space_it_was_given_to(tmp_path: Path) -> None:
    names = Names(tmp_path)
    assert names.find(HERE, "todo") is None
    assert names.remember(HERE, SERVER, "todo", FIRST) == FIRST
    assert Names(tmp_path).remember(HERE, SERVER, "todo", SECOND) == FIRST
    assert Names(tmp_path).find(HERE, "todo") == FIRST
    assert names.remember(HERE, SERVER, "other", SECOND) == SECOND
    assert names.all(HERE) == {"todo": FIRST, "other": SECOND}


def test_names_belong_to_a_server(tmp_path: Path) -> None:
    names = Names(tmp_path)
    names.remember(HERE, SERVER, "todo", FIRST)
    names.remember("wss://example.org", OTHER, "todo", SECOND)
    assert names.find("WSS://Example.ORG:443/", "todo") == SECOND
    assert names.find("ws://example.org", "todo") is None
    assert names.all("ws://elsewhere") == {}
    assert names.spaces() == [
        NamedSpace("todo", FIRST, SERVER, (ServerUrl(HERE),)),
        NamedSpace("todo", SECOND, OTHER, (ServerUrl("wss://example.org"),)),
    ]
    assert names.elsewhere(OTHER, "todo") == names.spaces()[0]
    assert names.elsewhere(OTHER, "notes") is None


@pytest.mark.rule("NAME-1")
def test_every_address_of_a_server_shows_its_names(tmp_path: Path) -> None:
    names = Names(tmp_path)
    names.remember(HERE, SERVER, "todo", FIRST)
    assert names.find("ws://localhost:8420", "todo") is None
    names.meet("ws://localhost:8420", SERVER)
    assert names.find("ws://localhost:8420", "todo") == FIRST
    names.meet(HERE, OTHER)  # another server at the address: its names are not those of the first
    assert names.find(HERE, "todo") is None
    assert names.on(SERVER, "todo") == FIRST
    names.meet(HERE, SERVER)
    assert names.find(HERE, "todo") == FIRST


@pytest.mark.rule("NAME-1")
def test_names_of_the_first_form_belong_to_the_server_that_answers(tmp_path: Path) -> None:
    names = Names(tmp_path)
    again = "ws://localhost:8420"
    names.file.write_text(json.dumps({"version": 1, "servers": {HERE: {"todo": FIRST}, again: {"todo": SECOND}}}))
    assert names.find(HERE, "todo") == FIRST
    names.meet(HERE, SERVER)
    names.meet(again, SERVER)
    assert names.all(again) == names.all(HERE) == {"todo": FIRST, f"todo ({again})": SECOND}
    assert json.loads(names.file.read_text())["version"] == 2


@pytest.mark.parametrize(
    "url", ["", "localhost", "localhost:8420", "ws://", "ws://h:port", "ws://h:99999", "ws://[::1"]
)
def test_what_is_no_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match=r"(?i)write|leave|port"):
        Names(tmp_path).find(url, "todo")


@pytest.mark.parametrize("name", ["", " todo", "todo\n", "a\x00", "did:key:z6Mk", "x" * 129, "\ud800"])
def test_what_cannot_be_a_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match="is not a name for a space"):
        Names(tmp_path).remember(HERE, SERVER, name, FIRST)
    with pytest.raises(InvalidName):
        Names(tmp_path).find(HERE, name)


def test_a_name_may_be_in_any_language_and_is_the_same_however_it_is_typed(tmp_path: Path) -> None:
    names = Names(tmp_path)
    assert names.remember(HERE, SERVER, "Einka\u0308ufe & more", FIRST) == FIRST
    assert names.find(HERE, "Eink\u00e4ufe & more") == FIRST


def test_only_a_space_can_have_a_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidDid):
        Names(tmp_path).remember(HERE, SERVER, "todo", Did("did:key:z"))


def test_processes_that_name_a_space_at_once_agree_and_lose_nothing(tmp_path: Path) -> None:
    code = """
import sys
from stemmadb.client.dialing.urls import ServerUrl
from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.name_book import NamedSpace
from stemmadb.client.keys.names import Names
seed = sys.argv[2].encode() * 32
names = Names(sys.argv[1])
server = sys.argv[3]
print([names.remember("ws://h", server, f"shared {n}", Identity.from_seed(seed).did) for n in range(10)])
for n in range(10): names.remember("ws://h", server, f"{sys.argv[2]} {n}", Identity.from_seed(seed).did)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), number, SERVER], stdout=subprocess.PIPE)  # noqa: S603
        for number in "1234"
    ]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert all(process.returncode == 0 for process in processes)
    assert len(Names(tmp_path).all("ws://h")) == 50


def test_the_file_is_private_and_can_be_read_by_a_person(tmp_path: Path) -> None:
    names = Names(tmp_path / "new")
    names.remember(HERE, SERVER, "todo", FIRST)
    assert stat.S_IMODE(names.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(names.directory.stat().st_mode) == 0o700
    text = names.file.read_text()
    assert json.loads(text) == {
        "version": 2,
        "addresses": {HERE: SERVER},
        "servers": {SERVER: {"todo": FIRST}},
        "unmet": {},
    }
    assert text.count("\n") > 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version": 1, "servers": []}',
        b'{"version": 1, "servers": {"ws://h": {"todo": "did:key:z"}}}',
        b'{"version": 1, "servers": {}, "more": 1}',
        b'{"version": 2, "servers": {}, "more": 1}',
        b'{"version": 2, "servers": {"did:key:z": {}}}',
        b'{"version": 2, "addresses": {"ws://h": "did:key:z"}}',
        b" " * (FILE_BYTES_MAX + 1),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(content: bytes, tmp_path: Path) -> None:
    names = Names(tmp_path)
    names.file.write_bytes(content)
    with pytest.raises(Malformed, match=str(names.file)):
        names.find(HERE, "todo")
    with pytest.raises(Malformed, match=str(names.file)):
        names.remember(HERE, SERVER, "todo", FIRST)
    assert names.file.read_bytes() == content


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    names = Names(tmp_path)
    names.file.write_text('{"version": 3, "places": {}}')
    with pytest.raises(NewerStorage):
        names.remember(HERE, SERVER, "todo", FIRST)
    assert names.file.read_text() == '{"version": 3, "places": {}}'


def test_the_names_of_the_user_are_in_the_config_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEMMADB_HOME", str(tmp_path))
    Names().remember(HERE, SERVER, "todo", FIRST)
    assert Names(tmp_path).find(HERE, "todo") == FIRST
