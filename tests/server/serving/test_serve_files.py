"""The files a server keeps or is given: its key, its note in the data directory, its certificate."""

from __future__ import annotations

import datetime
import os
import ssl
import stat
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from stemmadb.protocol.identity import is_signed_by
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server.serving import atomic_files, presence, server_identity, tls
from stemmadb.server.serving.presence import Presence
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.settings.problems import InvalidConfig, UnusableKey
from stemmadb.server.storage.directory import hold
from wire_peers import SERVER

# ------------------------------------------------------------ the key of the server


def test_the_identity_is_made_once_and_signs(tmp_path: Path) -> None:
    first, second = server_identity.keep(tmp_path), server_identity.keep(tmp_path)
    assert first.did == second.did
    assert is_signed_by(first.did, second.sign(b"payload"), b"payload")
    assert stat.S_IMODE((tmp_path / "server.key").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["server.key"]


def test_each_directory_has_its_own_identity(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert server_identity.keep(tmp_path / "a").did != server_identity.keep(tmp_path / "b").did


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    server_identity.keep(tmp_path)
    (tmp_path / "server.key").chmod(mode)
    with pytest.raises(UnusableKey, match="chmod 600"):
        server_identity.keep(tmp_path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x00" * 10_000])
def test_a_file_that_is_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    atomic_files.write(tmp_path / "server.key", content)
    with pytest.raises(UnusableKey, match="PEM"):
        server_identity.keep(tmp_path)
    assert (tmp_path / "server.key").read_bytes() == content


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    atomic_files.write(tmp_path / "server.key", key_pem(ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(UnusableKey, match="Ed25519"):
        server_identity.keep(tmp_path)


def test_what_a_crash_left_of_a_key_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "server.key.new").write_bytes(b"half a k")
    (tmp_path / "server.key.new").chmod(0o666)
    assert server_identity.keep(tmp_path).did == server_identity.keep(tmp_path).did
    assert stat.S_IMODE((tmp_path / "server.key").stat().st_mode) == 0o600


def test_a_file_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append("sync")
        fsync(descriptor)

    def named(source: Path, target: Path) -> None:
        steps.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    atomic_files.write(tmp_path / "file", b"content")
    assert steps == ["sync", "name", "sync"]
    assert (tmp_path / "file").read_bytes() == b"content"


# ------------------------------------------------------------ the note in the directory


def note(pid: int) -> Presence:
    return Presence(pid=pid, host="0.0.0.0", port=1, tls=False, did=SERVER, started=TimeMs(5))  # noqa: S104


def test_the_note_is_there_while_the_server_holds_the_directory(tmp_path: Path) -> None:
    with hold(tmp_path), presence.present(tmp_path, note(os.getpid())):
        found = presence.find(tmp_path)
        assert found == note(os.getpid())
        assert found.reached_at == "127.0.0.1"
        known = msgspec.json.decode((tmp_path / "server.json").read_bytes())
        assert known.keys() >= {"pid", "host", "port", "did", "started"}
    assert not (tmp_path / "server.json").exists()


def test_a_note_that_was_left_is_not_believed(tmp_path: Path) -> None:
    atomic_files.write(tmp_path / "server.json", msgspec.json.encode(note(os.getpid())))
    assert presence.find(tmp_path) is None
    atomic_files.write(tmp_path / "server.json", msgspec.json.encode(note(os.getpid() + 1)))
    with hold(tmp_path):  # by another command
        assert presence.find(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff"])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    with hold(tmp_path):
        assert presence.find(tmp_path) is None
        atomic_files.write(tmp_path / "server.json", content)
        assert presence.find(tmp_path) is None


# ------------------------------------------------------------ TLS


def key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    how = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def cert_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(begin).not_valid_after(begin.replace(year=2120))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


KEY = ec.generate_private_key(ec.SECP256R1())


def context(directory: Path, *, cert: bytes | None, key: bytes | None) -> ssl.SSLContext | None:
    for name, content in (("cert", cert), ("key", key)):
        if content is not None:
            (directory / name).write_bytes(content)
            (directory / name).chmod(0o600)
    values = {"tls_cert": directory / "cert", "tls_key": directory / "key"}
    return tls.context_of(Config.model_validate(values))


def wrong(directory: Path, *, cert: bytes | None, key: bytes | None) -> str:
    with pytest.raises(InvalidConfig) as refused:
        context(directory, cert=cert, key=key)
    return refused.value.message


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls.context_of(Config()) is None


def test_a_certificate_with_its_key_is_taken(tmp_path: Path) -> None:
    made = context(tmp_path, cert=cert_pem(KEY), key=key_pem(KEY))
    assert made is not None
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert wrong(tmp_path, cert=None, key=key_pem(KEY)).startswith("tls_cert cannot be used")
    (tmp_path / "key").unlink()
    assert wrong(tmp_path, cert=cert_pem(KEY), key=None).startswith("tls_key cannot be used")


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602, 0o644, 0o666])
def test_a_key_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    context(tmp_path, cert=cert_pem(KEY), key=key_pem(KEY))
    (tmp_path / "key").chmod(mode)
    said = wrong(tmp_path, cert=None, key=None)
    assert said.startswith("tls_key cannot be used")
    assert "chmod 600" in said


def test_a_group_may_read_a_key_of_root_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context(tmp_path, cert=cert_pem(KEY), key=key_pem(KEY))
    (tmp_path / "key").chmod(0o640)
    stat = os.stat
    for owner, is_taken in ((0, True), (1000, False)):
        found = os.stat_result((*stat(tmp_path / "key")[:4], owner, *stat(tmp_path / "key")[5:]))
        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", lambda *_args, found=found, **_how: found)
            if is_taken:
                tls.check_private(tmp_path / "key")
            else:
                with pytest.raises(InvalidConfig, match="chmod 600"):
                    tls.check_private(tmp_path / "key")


def test_a_key_of_another_certificate_is_told(tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    said = wrong(tmp_path, cert=cert_pem(KEY), key=key_pem(other))
    assert said.startswith("tls_key cannot be used")
    assert "not the key of the certificate" in said


def test_a_key_with_a_passphrase_is_told_and_nobody_is_asked(tmp_path: Path) -> None:
    assert "encrypted" in wrong(tmp_path, cert=cert_pem(KEY), key=key_pem(KEY, b"secret"))


def test_files_that_are_something_else_are_told(tmp_path: Path) -> None:
    assert wrong(tmp_path, cert=b"nonsense", key=key_pem(KEY)).startswith("tls_cert")
    assert wrong(tmp_path, cert=cert_pem(KEY), key=b"nonsense").startswith("tls_key")
