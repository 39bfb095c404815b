"""TLS by configuration: a certificate and its key, or a sentence that says what is wrong with them."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path

from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.settings.problems import InvalidConfig


def context_of(config: Config) -> ssl.SSLContext | None:
    """None without TLS. `InvalidConfig` names the setting whose file is not there, unreadable or does not fit."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    _check_readable("tls_cert", config.tls_cert)
    _check_readable("tls_key", config.tls_key)
    check_private(config.tls_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key, password=_refuse_to_ask)
    except _Encrypted:
        raise _wrong("tls_key", config.tls_key, "it is encrypted; give it without a passphrase") from None
    except ssl.SSLError as wrong:
        raise _explained(config.tls_cert, config.tls_key, wrong) from None
    return context


class _Encrypted(Exception):
    """OpenSSL wants a passphrase, which nobody is there to type."""


def _refuse_to_ask() -> str:
    raise _Encrypted


def _explained(cert: Path, key: Path, wrong: ssl.SSLError) -> InvalidConfig:
    if wrong.reason == "KEY_VALUES_MISMATCH":
        return _wrong("tls_key", key, f"it is not the key of the certificate in {cert}")
    if b"PRIVATE KEY-----" not in key.read_bytes():
        return _wrong("tls_key", key, "it holds no private key in PEM")
    return _wrong("tls_cert", cert, "it holds no certificate in PEM that OpenSSL can use")


def _check_readable(setting: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as failed:
        raise _wrong(setting, file, f"{failed.strerror or failed}") from None


def check_private(key: Path) -> None:
    """As PostgreSQL does: the owner's alone, or of root and readable by a group, such as one for certificates."""
    found = os.stat(key)
    allowed = stat.S_IRWXU | (stat.S_IRGRP if found.st_uid == 0 else 0)
    if stat.S_IMODE(found.st_mode) & ~allowed:
        raise _wrong("tls_key", key, "other users may read or change it; run chmod 600 on it")


def _wrong(setting: str, file: Path, why: str) -> InvalidConfig:
    return InvalidConfig(setting=setting, source=str(file), why=why)
