"""The configuration of a server: every setting with its description, its default and what it may be."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid
from stemmadb.protocol.model.ids import Did
from stemmadb.protocol.model.limits import Limits
from stemmadb.server.engine.settings import Settings
from stemmadb.server.service.settings import ServiceSettings
from stemmadb.server.serving import bounds
from stemmadb.server.serving.bounds import NUMBER_MAX, Whole
from stemmadb.server.serving.origins import ANY

LISTENING: Final = "Where it listens, and where the data is"
ACCESS: Final = "Who may come and what they may do"
LOGS: Final = "Logs and metrics"
CONNECTIONS: Final = "Connections"
GROUPS: Final = (LISTENING, ACCESS, LOGS, CONNECTIONS, bounds.SERVICE, bounds.PROTOCOL, bounds.ENGINE)

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s*]+/?", re.IGNORECASE)
_MESSAGE_PARTS: Final = ("part_bytes_max", "value_bytes_max", "blob_chunk_bytes_max")

if TYPE_CHECKING:

    class _Bounds(BaseModel):
        """The bounds are read through `limits` and `settings`, which know their types."""

else:
    _Bounds = create_model("_Bounds", **bounds.all_fields())


def _setting(default: object, group: str, description: str, **more: Any) -> Any:
    return Field(default=default, description=description, json_schema_extra={"group": group}, **more)


def _count(default: int, group: str, description: str) -> Any:
    return _setting(default, group, description, ge=1, le=NUMBER_MAX)


def _split(given: object) -> object:
    """A list, also as a text with commas, which is how the environment and flags have it."""
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    return given


def _origins(given: object) -> object:
    listed = _split(given)
    for origin in listed if isinstance(listed, list | tuple) else ():
        if not isinstance(origin, str) or not (origin == ANY or _ORIGIN.fullmatch(origin)):
            raise ValueError(f"{origin!r} is no origin; write it as 'https://app.example', without a path, or as '*'")
    return listed


def _makers(given: object) -> object:
    if given in ("anyone", "nobody"):
        return given
    listed = _split(given)
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError("it should be 'anyone', 'nobody' or a list of space DIDs")
    for did in listed:
        _check_did(did)
    return tuple(listed)


def _check_did(did: object) -> None:
    try:
        identity.public_key(str(did))
    except InvalidDid as wrong:
        raise ValueError(f"it should be 'anyone', 'nobody' or a list of space DIDs. {wrong.message}") from None


def _file(given: object) -> object:
    if given == "":
        raise ValueError("it is empty")
    return given


FilePath = Annotated[Path, BeforeValidator(_file)]
Makers = Annotated[Literal["anyone", "nobody"] | tuple[Did, ...], BeforeValidator(_makers)]


class Config(_Bounds):
    """All settings of a server, checked. The names are the same in the file, the environment and the flags."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = _setting("127.0.0.1", LISTENING, "The address to listen on.", min_length=1, max_length=253)
    port: Whole = _setting(8420, LISTENING, "The port; 0 takes a free one and says which.", ge=0, le=65_535)
    data: FilePath = _setting(Path("data"), LISTENING, "The data directory, made if it is not there.")
    listener: Literal["auto", "picows", "websockets"] = _setting(
        "auto", LISTENING, "The WebSocket implementation; auto takes picows where it is installed."
    )
    tls_cert: FilePath | None = _setting(None, LISTENING, "A certificate chain in PEM; with tls_key it turns TLS on.")
    tls_key: FilePath | None = _setting(None, LISTENING, "The private key of the certificate, in PEM.")
    allow_remote: bool = _setting(
        False, LISTENING, "Lets it listen elsewhere than on loopback without TLS, or with make_spaces 'anyone'."
    )

    origins: Annotated[tuple[str, ...], BeforeValidator(_origins)] = _setting(
        (), ACCESS, "Origins of browser pages that may connect, * for all; programs send none and need none."
    )
    make_spaces: Makers = _setting(
        "nobody",
        ACCESS,
        "Who may make spaces: anyone, nobody, or a list of space DIDs. Unset: anyone on loopback, nobody elsewhere.",
    )

    log_format: Literal["human", "json"] = _setting("human", LOGS, "Lines for people, or one JSON object a line.")
    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", LOGS, "The least that is logged.")

    metrics: Literal["spaces", "totals", "off"] = _setting(
        "totals",
        LOGS,
        "What /metrics tells, to everybody: spaces by name, only totals, or nothing. "
        "Unset: spaces on loopback, totals elsewhere.",
    )

    connections_max: Whole = _count(10_000, CONNECTIONS, "Connections in all.")
    handshake_timeout_ms: Whole = _count(10_000, CONNECTIONS, "Until a connection has to be a WebSocket.")
    heartbeat_ms: Whole = _count(20_000, CONNECTIONS, "Between signs of life on an idle connection.")
    stop_timeout_ms: Whole = _count(5_000, CONNECTIONS, "How long a stop waits for what is under way.")

    @model_validator(mode="before")
    @classmethod
    def _fit_to_host(cls, given: object) -> object:
        """Where only this machine comes in, more is allowed."""
        if not isinstance(given, dict):
            return given
        host = given.get("host", cls.model_fields["host"].default)
        fitting = {"make_spaces": "anyone", "metrics": "spaces"} if is_loopback(str(host)) else {}
        return fitting | given

    @model_validator(mode="after")
    def _check(self) -> Config:
        if (self.tls_cert is None) != (self.tls_key is None):
            there, missing = ("tls_cert", "tls_key") if self.tls_key is None else ("tls_key", "tls_cert")
            raise _clash(there, f"it needs {missing} beside it")
        if self.risks and not self.allow_remote:
            raise _clash("host", f"{' '.join(self.risks)} Set allow_remote if that is what you want")
        limits = self.limits()
        for name in _MESSAGE_PARTS:
            if getattr(limits, name) > limits.message_bytes_max:
                raise _clash(name, f"it is more than message_bytes_max, which is {limits.message_bytes_max}")
        return self

    @property
    def risks(self) -> tuple[str, ...]:
        """What strangers could do with these settings, a sentence for each; empty on loopback."""
        if is_loopback(self.host):
            return ()
        found = []
        if self.tls_cert is None:
            found.append(f"Without TLS everybody on the way to {self.host} can read and change what is sent.")
        if self.make_spaces == "anyone":
            found.append(f"Everybody who reaches {self.host} can make spaces and fill the disk.")
        return tuple(found)

    def limits(self) -> Limits:
        """The bounds that clients are told in `hello`."""
        return bounds.limits_of(self.__dict__)

    def service_settings(self) -> ServiceSettings:
        listed = {"anyone": None, "nobody": frozenset[Did]()}
        makers = listed[self.make_spaces] if isinstance(self.make_spaces, str) else frozenset(self.make_spaces)
        return bounds.service_settings_of(self.__dict__, makers)

    def settings(self) -> Settings:
        return bounds.settings_of(self.__dict__)


def is_loopback(host: str) -> bool:
    """Whether only programs on the same machine reach this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def group_of(name: str) -> str:
    """The group of settings that a setting belongs to, one of `GROUPS`."""
    extra = Config.model_fields[name].json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["group"])


def description_of(name: str) -> str:
    return Config.model_fields[name].description or ""


def _clash(setting: str, why: str) -> PydanticCustomError:
    """Two settings that do not go together; the one that is named is the one to look at."""
    return PydanticCustomError("clash", "{why}", {"setting": setting, "why": why})
