"""Files as `make console` leaves them, small ones, and what a page signs when it asks to be let in."""

from __future__ import annotations

import base64
from pathlib import Path

from stemmadb.client import Identity

PAGE = '<!doctype html><meta name="csp-nonce" content="__CSP_NONCE__"><style nonce="__CSP_NONCE__"></style>{}'
SCRIPT = b"console.log('a script')\n" * 99


def built(directory: Path, mark: str = "app") -> Path:
    """As `make console` leaves it."""
    (directory / "assets").mkdir(parents=True, exist_ok=True)
    (directory / "assets" / "main-ABC.js").write_bytes(SCRIPT)
    (directory / "assets" / "icon-1.svg").write_bytes(b"<svg/>")
    (directory / "assets" / "secret.txt").write_bytes(b"of no known type")
    (directory / "pair.html").write_text(PAGE.format("pair"))
    (directory / "index.html").write_text(PAGE.format(mark))
    return directory


def sealed(identity: Identity, code: str) -> str:
    """The signature of a code."""
    return base64.urlsafe_b64encode(identity.sign(f"stemma.v1 pair {code}".encode())).rstrip(b"=").decode()
