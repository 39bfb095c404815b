"""Pairing: what the one request to `stemmadb console --web` must be. No I/O (CONSOLE-2).

The page proves with the code that it is the one that this command opened, and with its signature that it has the key
of the identity that it names. Everything else is refused, whoever sends it: any page can reach the port.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from typing import Final, NamedTuple
from urllib.parse import quote

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid
from stemmadb.protocol.model.values.ids import Did

CODE_BYTES: Final = 16
"""Of chance, in the code."""
HEAD_BYTES_MAX: Final = 8_192
BODY_BYTES_MAX: Final = 4_096
LENGTH_DIGITS_MAX: Final = 6
PATH: Final = "/pair"
SIGNED: Final = "stemma.v1 pair "
"""Stands before the code in what the page signs."""
AGAIN: Final = "Run stemmadb console --web again."


class PairingRefused(Exception):
    """The request is not the one that is waited for. The message is for the terminal, and for the page."""

    def __init__(self, why: str, status: int = 403) -> None:
        super().__init__(f"{why} {AGAIN}")
        self.status = status


class PairRequest(NamedTuple):
    """A request, read. Names of headers are in lower case; one that came twice has two values."""

    method: str
    path: str
    headers: dict[str, list[str]]

    @property
    def length(self) -> int:
        """The bytes of its body; `PairingRefused` if that cannot be told, or is too much."""
        lengths = self.headers.get("content-length", [])
        is_plain = len(lengths) == 1 and lengths[0].isdigit() and len(lengths[0]) <= LENGTH_DIGITS_MAX
        if not is_plain or "transfer-encoding" in self.headers:
            raise PairingRefused("The request does not say how long it is.", 411)
        if int(lengths[0]) > BODY_BYTES_MAX:
            raise PairingRefused("The request is too large.", 413)
        return int(lengths[0])

    def is_only(self, name: str, value: str) -> bool:
        return self.headers.get(name) == [value]


class Pairing(NamedTuple):
    """What the command waits for: this code, from a page of this origin, at this port."""

    origin: str
    port: int
    code: str

    def page(self, role: str, name: str) -> str:
        """The address of the page, with all that it needs behind the `#`, which no server ever sees."""
        return f"{self.origin}/console/pair#{self.port}.{self.code}.{role}.{quote(name, safe='')}"

    def check_place(self, request: PairRequest) -> None:
        """Refuses what was not meant for this command, or comes from a page of somebody else."""
        if not request.is_only("host", f"127.0.0.1:{self.port}"):
            raise PairingRefused("A request came under another host name.", 421)
        if not request.is_only("origin", self.origin):
            raise PairingRefused("A request came from another page than the server's.")

    def is_preflight(self, request: PairRequest) -> bool:
        """What a browser asks first, before it sends JSON to another port."""
        return request.method == "OPTIONS" and request.path == PATH

    def audience(self, request: PairRequest, body: bytes) -> Did:
        """The identity that the page made; `PairingRefused` for everything but the request that is waited for."""
        if (request.method, request.path) != ("POST", PATH):
            raise PairingRefused("A request came that is none of pairing.", 404)
        media = request.headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
        if media != "application/json":
            raise PairingRefused("The request is not JSON.", 415)
        said = _read(body)
        if not hmac.compare_digest(said["code"].encode(), self.code.encode()):
            raise PairingRefused("The code is wrong: it was for another page, or was used before.")
        return self._signer(said["did"], said["signature"])

    def _signer(self, did: str, signature: str) -> Did:
        try:
            identity.public_key(did)
            sealed = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        except (InvalidDid, binascii.Error, ValueError):
            raise PairingRefused("The request names no identity, or is not signed.", 400) from None
        if not identity.is_signed_by(did, sealed, f"{SIGNED}{self.code}".encode()):
            raise PairingRefused("The page does not have the key of the identity that it names.")
        return Did(did)


def new_code(random: bytes) -> str:
    """The text of the code: letters that may stand in an address."""
    assert len(random) == CODE_BYTES
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def read_head(head: bytes) -> PairRequest:
    """The head of a request, which ends with an empty line."""
    try:
        lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        method, path, version = lines[0].split(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            raise ValueError(version)
        headers: dict[str, list[str]] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise ValueError(line)
            headers.setdefault(name.lower(), []).append(value.strip(" \t"))
    except ValueError:
        raise PairingRefused("What came is no request of a browser.", 400) from None
    return PairRequest(method, path, headers)


def _read(body: bytes) -> dict[str, str]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.keys() != {"did", "code", "signature"}:
        raise PairingRefused("The request has other fields than those of pairing.", 400)
    if not all(isinstance(one, str) and one.isascii() for one in said.values()):
        raise PairingRefused("The request has other fields than those of pairing.", 400)
    return {name: str(one) for name, one in said.items()}
