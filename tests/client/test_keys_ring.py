"""The key ring: identities made once, kept for the user alone, and found again."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.key_files import KEY_BYTES_MAX, from_pem, read_identity, to_pem
from stemmadb.client.keys.places import config_directory
from stemmadb.client.keys.ring import KeyRing
from stemmadb.protocol import identity
from stemmadb.protocol.errors import AlreadyExists, Forbidden, InvalidDid, InvalidName, Malformed
from stemmadb.protocol.model.values.ids import Did

SEED = bytes(range(32))


def test_the_identity_is_made_on_first_use_and_is_the_same_ever_after(tmp_path: Path) -> None:
    first = KeyRing(tmp_path).identity()
    again = KeyRing(tmp_path).identity()
    assert first.did == again.did
    assert KeyRing(tmp_path).identity("robot").did != first.did
    assert identity.is_signed_by(first.did, again.sign(b"x"), b"x")


def test_new_keys_come_from_where_the_ring_was_told(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path, make_identity=lambda: Identity.from_seed(SEED))
    assert ring.identity().did == ring.make("default").did == Identity.from_seed(SEED).did


def test_only_the_user_can_read_keys(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ring = KeyRing(tmp_path / "home")
        ring.identity()
        ring.keep_space_key(Identity.make())
    finally:
        os.umask(before)
    for found in (tmp_path / "home").rglob("*"):
        assert stat.S_IMODE(found.stat().st_mode) == (0o700 if found.is_dir() else 0o600), found
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_use_is_refused_with_what_to_run(mode: int, tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "my keys")
    ring.identity()
    file = tmp_path / "my keys" / "identities" / "default.key"
    file.chmod(mode)
    with pytest.raises(Forbidden, match=f"Run: chmod 600 '{file}'") as refused:
        ring.identity()
    assert f"(mode {mode:04o})" in refused.value.message
    file.chmod(0o600)
    ring.identity()


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_is_named_and_never_made_anew(content: bytes, tmp_path: Path) -> None:
    KeyRing(tmp_path).identity()
    file = tmp_path / "identities" / "default.key"
    file.write_bytes(content)
    for use in (KeyRing.identity, KeyRing.identities, lambda ring: ring.make("default")):
        with pytest.raises(Malformed, match=str(file)):
            use(KeyRing(tmp_path))
    assert file.read_bytes() == content


def test_a_key_of_another_kind_and_a_file_that_is_too_large_are_refused(tmp_path: Path) -> None:
    rsa = generate_private_key(65537, 2048)
    with pytest.raises(Malformed, match="no Ed25519 key"):
        from_pem(rsa.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), source="x")
    file = tmp_path / "large.key"
    file.write_bytes(to_pem(Identity.make()) + bytes(KEY_BYTES_MAX))
    file.chmod(0o600)
    with pytest.raises(Malformed, match="more than 4096 bytes"):
        read_identity(file)


def test_all_who_ask_at_once_get_one_identity(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = {one.did for one in threads.map(lambda _: KeyRing(tmp_path).identity(), range(32))}
    assert len(found) == 1


def test_processes_that_ask_at_once_get_one_identity(tmp_path: Path) -> None:
    code = f"from stemmadb.client.keys.ring import KeyRing; print(KeyRing({str(tmp_path)!r}).identity().did)"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(4)]  # noqa: S603
    assert len({process.communicate()[0] for process in processes}) == 1
    assert all(process.returncode == 0 for process in processes)


def test_a_crash_while_a_key_was_written_is_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "identities"
    folder.mkdir()
    (folder / "default.key.new").write_bytes(b"half")
    (folder / "default.key.new").chmod(0o666)
    made = KeyRing(tmp_path).identity()
    assert [file.name for file in folder.iterdir()] == ["default.key"]
    assert KeyRing(tmp_path).identities() == {"default": made.did}


def test_identities_are_listed_by_name(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    assert ring.identities() == {}
    made = {name: ring.make(name).did for name in ("robot", "ann", "x.y-z_1")}
    assert list(ring.identities().items()) == sorted(made.items())
    assert ring.find("nobody") is None


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    made = ring.make("robot")
    with pytest.raises(AlreadyExists, match="'robot' already"):
        ring.make("robot")
    with pytest.raises(AlreadyExists):
        ring.import_seed("robot", SEED)
    assert ring.identity("robot").did == made.did


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "A", "a" * 65, "ü", "a\n", "-x", ".hidden"])
def test_a_name_that_cannot_be_a_file_everywhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match="is not a name for an identity"):
        KeyRing(tmp_path).identity(name)
    assert list(tmp_path.iterdir()) == []


def test_an_identity_moves_by_its_seed(tmp_path: Path) -> None:
    first, second = KeyRing(tmp_path / "1"), KeyRing(tmp_path / "2")
    made = first.make("robot")
    seed = first.identity("robot").seed()
    assert second.import_seed("moved", seed).did == made.did
    assert second.import_seed("moved", seed).did == made.did, "the same again is no other"
    assert second.identity("moved").seed() == seed
    with pytest.raises(Malformed, match="31 bytes"):
        second.import_seed("short", SEED[1:])


def test_a_key_file_elsewhere_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Identity.make()
    file = tmp_path / "robot.key"
    file.write_bytes(to_pem(made))
    file.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_identity("~/robot.key").did == read_identity(file).did == made.did


def test_the_keys_of_spaces_are_kept_by_their_did(tmp_path: Path) -> None:
    ring, space, other = KeyRing(tmp_path), Identity.make(), Identity.make()
    assert ring.space_key(space.did) is None
    ring.keep_space_key(space)
    ring.keep_space_key(space)
    found = KeyRing(tmp_path).space_key(space.did)
    assert found is not None
    assert found.seed() == space.seed()
    assert ring.spaces() == (space.did,)
    assert ring.identities() == {}
    with pytest.raises(InvalidDid):
        ring.space_key(Did("did:key:../../x"))
    ring.keep_space_key(other)
    files = {file.name[:-4]: file for file in (tmp_path / "spaces").iterdir()}
    files[space.did.removeprefix("did:key:")].replace(files[other.did.removeprefix("did:key:")])
    with pytest.raises(Malformed, match=f"it is the key of {space.did}"):
        ring.space_key(other.did)


def test_each_system_has_its_place_for_them() -> None:
    home = Path("/home/ann")
    assert config_directory({}, platform="linux", home=home) == home / ".config/stemmadb"
    assert config_directory({"XDG_CONFIG_HOME": "/xdg"}, platform="linux", home=home) == Path("/xdg/stemmadb")
    assert config_directory({"XDG_CONFIG_HOME": "xdg"}, platform="linux", home=home) == home / ".config/stemmadb"
    assert config_directory({}, platform="darwin", home=home) == home / "Library/Application Support/stemmadb"
    assert config_directory({}, platform="win32", home=home) == home / "AppData/Roaming/stemmadb"
    assert config_directory({"APPDATA": "/roaming"}, platform="win32", home=home) == Path("/roaming/stemmadb")
    for platform in ("linux", "darwin", "win32"):
        chosen = {"STEMMADB_HOME": "/mine", "XDG_CONFIG_HOME": "/xdg", "APPDATA": "/roaming"}
        assert config_directory(chosen, platform=platform, home=home) == Path("/mine")
    assert config_directory({"STEMMADB_HOME": ""}, platform="linux", home=home) == home / ".config/stemmadb"


def test_without_a_directory_it_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEMMADB_HOME", str(tmp_path))
    assert KeyRing().identity().did == KeyRing(tmp_path).identity().did
