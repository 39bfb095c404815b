"""The configuration of a server: every setting with its description, its default and what it may be."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidDid
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.serving.listeners.origins import ANY
from stemmadb.server.serving.settings import bounds
from stemmadb.server.serving.settings.bounds import NUMBER_MAX, Whole
from stemmadb.server.serving.settings.database_url import database_url

LISTENING: Final = "Address and data directory"
ACCESS: Final = "Access"
LOGS: Final = "Logs and metrics"
CONNECTIONS: Final = "Connections"
GROUPS: Final = (LISTENING, ACCESS, LOGS, CONNECTIONS, bounds.SERVICE, bounds.PROTOCOL, bounds.ENGINE)

WORKERS_MAX: Final = 256
WORKER_BYTES_MIN: Final = 1024 * 1024
"""What one worker's share of `cache_bytes_max` has to be at least."""
DATABASE_BLOB_BYTES_MAX: Final = 64 * 1024
"""Of a blob that is kept in a database."""
EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  # what we look for
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s*]+/?", re.IGNORECASE)
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
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
            raise ValueError(
                f"{origin!r} is not an origin; write it as 'https://app.example', without a path, or as '*'"
            )
    return listed


def _public(given: object) -> object:
    listed = _split(given)
    for origin in listed if isinstance(listed, list | tuple) else ():
        if not isinstance(origin, str) or not re.match(r"https?://", origin) or not _ORIGIN.fullmatch(origin):
            raise ValueError(f"{origin!r} is not an address; write it as 'https://db.example', without a path")
    return listed


def _operators(given: object) -> object:
    listed = _split(given)
    for did in listed if isinstance(listed, list | tuple) else ():
        try:
            identity.public_key(str(did))
        except InvalidDid as wrong:
            raise ValueError(f"it should be a list of DIDs. {wrong.message}") from None
    return listed


def _hosts(given: object) -> object:
    listed = _split(given)
    for host in listed if isinstance(listed, list | tuple) else ():
        if not isinstance(host, str) or not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is not a host name; write it as 'metrics.example', without a port")
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


def _storage(given: object) -> object:
    return given if given is None else database_url(str(given))


def _node_address(given: object) -> object:
    if given is not None and not _ADDRESS.fullmatch(str(given)):
        raise ValueError("it is not an address such as 10.0.0.1:8420")
    return given


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
    port: Whole = _setting(
        8420, LISTENING, "The port; with 0 the server picks a free one and prints it.", ge=0, le=65_535
    )
    data: FilePath = _setting(Path("data"), LISTENING, "The data directory; created if it does not exist.")
    storage: Annotated[str | None, BeforeValidator(_storage)] = _setting(
        None,
        LISTENING,
        "A PostgreSQL database for the spaces: postgresql://user@host/database. The password comes from PGPASSFILE.",
    )
    node_address: Annotated[str | None, BeforeValidator(_node_address)] = _setting(
        None, LISTENING, "Where other nodes on the database reach this one, as host:port. Unset: host and port."
    )
    server_key: FilePath | None = _setting(
        None, LISTENING, "The server's key, the same on all nodes. Unset: server.key in the data directory."
    )
    blobs: FilePath | None = _setting(
        None, LISTENING, "A directory that all nodes on the database share, for blobs of more than 64 KiB."
    )
    lease_ms: Whole = _setting(
        3_000, LISTENING, "How long a node on the database lives without renewing its row.", ge=300, le=60_000
    )
    drain_ms: Whole = _setting(
        10_000,
        LISTENING,
        "Over how long a node that stops spreads its spaces, if it has over 1,000.",
        ge=1,
        le=600_000,
    )
    read_view_ms_max: Whole = _setting(
        5_000, LISTENING, "How long one read of the database may take.", ge=100, le=600_000
    )
    listener: Literal["auto", "picows", "websockets"] = _setting(
        "auto", LISTENING, "The WebSocket implementation; auto uses picows if it is installed."
    )
    workers: Whole = _setting(
        1,
        LISTENING,
        "Processes that serve the spaces, each with its share of them; as many as there are cores at most.",
        ge=1,
        le=WORKERS_MAX,
    )
    accept_only: Whole | None = _setting(
        None,
        LISTENING,
        "For tests: only the worker with this number accepts connections.",
        ge=0,
        le=WORKERS_MAX - 1,
    )
    tls_cert: FilePath | None = _setting(
        None, LISTENING, "A certificate chain in PEM; together with tls_key it enables TLS."
    )
    tls_key: FilePath | None = _setting(
        None, LISTENING, "The private key of the certificate, in PEM; only its owner may have access."
    )
    allow_remote: bool = _setting(
        False, LISTENING, "Allows other addresses than loopback without TLS, or with make_spaces 'anyone'."
    )

    origins: Annotated[tuple[str, ...], BeforeValidator(_origins)] = _setting(
        (), ACCESS, "Origins of web pages that may connect, * for all; programs send none and need none."
    )
    public: Annotated[tuple[str, ...], BeforeValidator(_public)] = _setting(
        (),
        ACCESS,
        "Addresses under which people reach this server, such as https://db.example; their pages may connect.",
    )
    operators: Annotated[tuple[Did, ...], BeforeValidator(_operators)] = _setting(
        (), ACCESS, "DIDs that see all spaces over HTTP, with size and head, and never contents."
    )
    hosts: Annotated[tuple[str, ...], BeforeValidator(_hosts)] = _setting(
        (), ACCESS, "Host names under which /metrics is read, beside localhost, the host above and any IP address."
    )
    console: Literal["on", "off"] = _setting(
        "off",
        ACCESS,
        "Whether /console is the web console. Unset: on on loopback, off elsewhere and where public is set.",
    )
    make_spaces: Makers = _setting(
        "nobody",
        ACCESS,
        "Who may create spaces: anyone, nobody, or a list of DIDs. Unset: anyone on loopback, nobody elsewhere.",
    )

    log_format: Literal["human", "json"] = _setting("human", LOGS, "Lines for people, or one JSON object per line.")
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", LOGS, "The lowest level that is logged."
    )

    metrics: Literal["spaces", "totals", "off"] = _setting(
        "totals",
        LOGS,
        "What /metrics shows to everybody: each space by name, only totals, or nothing. "
        "Unset: spaces on loopback, totals elsewhere.",
    )

    connections_max: Whole = _count(10_000, CONNECTIONS, "Connections to the server, of all principals together.")
    connections_per_address_max: Whole | None = _setting(
        None, CONNECTIONS, "Connections from one address; leave it unset behind a proxy.", ge=1, le=NUMBER_MAX
    )
    http_connections_max: Whole = _count(2_000, CONNECTIONS, "HTTP connections, of all principals together.")
    http_streams_max: Whole = _count(1_000, CONNECTIONS, "Streams of events over HTTP, of all principals together.")
    http_body_timeout_ms: Whole = _count(
        30_000, CONNECTIONS, "Time without a byte after which an unfinished HTTP request, or its answer, is given up."
    )
    http_idle_timeout_ms: Whole = _count(
        75_000, CONNECTIONS, "Time an HTTP connection may be silent between requests."
    )
    opening_frames_max: Whole = _count(
        1_000, CONNECTIONS, "WebSocket frames that a client may send before its session is open."
    )
    fragments_max: Whole = _count(4_096, CONNECTIONS, "Fragments of one WebSocket message.")
    small_frames_per_second: Whole = _count(
        1_000, CONNECTIONS, "Pings, pongs and fragments below 1 KiB of one connection per second; past it, it closes."
    )
    handshake_timeout_ms: Whole = _count(10_000, CONNECTIONS, "Time a new connection has to become a WebSocket.")
    heartbeat_ms: Whole = _count(
        20_000, CONNECTIONS, "Time without traffic after which the server pings a connection."
    )
    stop_timeout_ms: Whole = _count(5_000, CONNECTIONS, "How long a stop waits for commits that are not decided yet.")

    @model_validator(mode="before")
    @classmethod
    def _fit_to_host(cls, given: object) -> object:
        """On loopback only this machine can connect, so the defaults allow more."""
        if not isinstance(given, dict):
            return given
        host = given.get("host", cls.model_fields["host"].default)
        fitting = {"make_spaces": "anyone", "metrics": "spaces"} if is_loopback(str(host)) else {}
        if fitting and not given.get("public"):
            fitting["console"] = "on"
        return fitting | given

    @model_validator(mode="after")
    def _check(self) -> Config:
        if (self.tls_cert is None) != (self.tls_key is None):
            there, missing = ("tls_cert", "tls_key") if self.tls_key is None else ("tls_key", "tls_cert")
            raise _clash(there, f"it needs {missing} beside it")
        if self.storage is not None and self.node_address is None and self.host in EVERYWHERE:
            raise _clash("node_address", "it has to be given where the server listens on all addresses")
        if self.risks and not self.allow_remote:
            raise _clash("host", f"{' '.join(self.risks)} Set allow_remote if that is what you want")
        if self.workers > 1 and self.settings().cache_bytes_max // self.workers < WORKER_BYTES_MIN:
            raise _clash("workers", f"each needs {WORKER_BYTES_MIN} bytes of cache_bytes_max; start fewer")
        if self.accept_only is not None and self.accept_only >= self.workers:
            raise _clash("accept_only", f"there are {self.workers} workers, and the first is 0")
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
            found.append(f"Without TLS anyone on the network path to {self.host} can read and change what is sent.")
        if self.make_spaces == "anyone":
            found.append(f"Anyone who can reach {self.host} can create spaces and fill the disk.")
        return tuple(found)

    def limits(self) -> Limits:
        """The limits that `hello` announces to clients."""
        limits = bounds.limits_of(self.__dict__)
        if self.storage is None or self.blobs is not None:
            return limits
        # There is no place but the database.
        return msgspec.structs.replace(limits, blob_bytes_max=min(limits.blob_bytes_max, DATABASE_BLOB_BYTES_MAX))

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
