"""The bounds of the protocol, the service and the engine as settings: every field of each, under its own name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from pydantic import BeforeValidator, Field

from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.storage.port import FACTS_MAX

NUMBER_MAX: Final = 2**53
"""JSON does not represent larger numbers exactly."""
DEPTH_MAX: Final = 128
"""Values are walked by nested calls, whose number is bounded too."""
RENAMED: Final = {"reads_max": "view_reads_max"}
"""Names of the engine that the protocol uses for something else: the setting of the engine has another one."""
THREADS_MAX: Final = 1_024
MAXIMA: Final = {
    "operations_max": FACTS_MAX,
    "bulk_operations_max": FACTS_MAX,
    "depth_max": DEPTH_MAX,
    "writer_threads": THREADS_MAX,
    "reader_threads": THREADS_MAX,
}
"""Bounds that cannot be raised further; all others end at `NUMBER_MAX`."""
PROTOCOL: Final = "Limits of requests, which the server announces to clients"
SERVICE: Final = "Limits of principals, sessions and watches"
ENGINE: Final = "Engine"
_MAKERS: Final = "make_spaces"
"""The one field of the service that is no number; `Config` has it."""

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "opening_timeout_ms": "Time a client has to open its session on a WebSocket.",
    "connections_per_principal_max": "Connections that one principal may have.",
    "requests_per_second": "Requests per second of one principal, over all its connections.",
    "commits_per_second": "Commits per second of one principal, over all its connections.",
    "refusals_per_second": "Messages of one connection that the server refuses per second; past it, it closes.",
    "requests_at_once_max": "Requests of one connection that run at the same time; the others wait.",
    "unsent_bytes_max": "Unsent bytes of one client above which no more frames are built for it.",
    "answer_wait_ms": "How long an answer waits for the changes before it, until it is given up as unavailable.",
    "feed_bytes_max": "Bytes of recent batches that are kept in memory for each space.",
    "feed_batches_max": "Recent batches that are kept in memory for each space.",
    "watch_groups_max": "Different watches of one space; equal watches count once.",
    "hub_idle_ms": "How long a space is still followed after its last session, for clients that reconnect.",
    "idle_hubs_max": "Spaces without sessions that are still followed.",
    "unfounded_spaces_max": "Spaces without an access list that may be open at a time; such a space takes no disk.",
    "quiet_ms": "How long a session may get no frame while others commit what it does not watch.",
    "refusal_ms": "`unknown_space` is answered after a multiple of this time: a hidden space cannot be timed.",
    "sweep_ms": "How often abandoned uploads are removed.",
    "message_bytes_max": "Bytes of a message.",
    "part_bytes_max": "Bytes of one part of a frame, unless a single fact is larger.",
    "value_bytes_max": "Bytes of a value or a patch, in its shortest encoding.",
    "depth_max": "Nested containers of a value.",
    "id_bytes_max": "Bytes of an entity id or an id prefix.",
    "operations_max": "Operations of a commit.",
    "bulk_operations_max": "Operations of a merge, a revert or an erasure.",
    "patch_operations_max": "Operations of a patch.",
    "reads_max": "Declared reads of a commit.",
    "locals_max": "Pending commits named by one read.",
    "scan_facts_max": "Facts of others examined to decide one read; beyond it the read counts as stale.",
    "note_bytes_max": "Bytes of the message and the metadata of a commit.",
    "watches_max": "Watches of a session.",
    "roots_max": "Roots of a query.",
    "query_entities_max": "Entities of an answer.",
    "query_depth_max": "Links followed in a row.",
    "query_bytes_max": "Bytes of the values of an answer.",
    "ordered_entities_max": "Entities that a query with `order` or `limit` puts in order.",
    "query_work_max": "Units of work of a query, or of one step of a watch; a unit is about 0.2 microseconds.",
    "schema_bytes_max": "Bytes of a schema.",
    "page_max": "Entries of a page.",
    "branch_depth_max": "Nested branches.",
    "blob_chunk_bytes_max": "Bytes of a chunk of a blob.",
    "blob_bytes_max": "Bytes of a blob.",
    "quiet_versions_max": "Versions after which a session without news gets an empty frame.",
    "lost_keep_max": "Confirmed commits a client keeps, to report them as lost after a restore.",
    "batch_commits_max": "Commits decided and written together, with one sync.",
    "batch_bytes_max": "Bytes of bodies written together, and of values patched together.",
    "queue_bytes_max": "Bytes of commits that may wait in a space; beyond it their senders are not read from.",
    "watched_entities_max": "Entities in all different watches of one space together.",
    "ahead_min": "Commits that must be waiting before the next batch is decided while the last one is being written.",
    "queue_max": "Commits that may wait in a space; beyond it their senders are not read from.",
    "cache_bytes_max": "Bytes of heads kept in memory, for all spaces together.",
    "past_bytes_max": "Bytes of past states kept in memory, for all spaces together.",
    "sessions_max": "Sessions of a space whose highest local is kept in memory.",
    "names_max": "Branches of a space that are kept in memory, and as many tags.",
    "moves_max": "How often in a row a batch is decided again because another writer committed first.",
    "snapshots_max": "Snapshots that are due and not written yet; further ones are dropped and become due again.",
    "snapshot_bytes_max": "Bytes of the values in those snapshots.",
    "readers_max": "Executor calls that one space has under way for reads.",
    "view_reads_max": "Questions answered on one read view, in one executor call.",
    "open_spaces_max": "Open spaces beyond which unused ones are closed; fewer where file descriptors are few.",
    "space_idle_ms": "How long a space stays open that nobody uses, at least; at most twice as long.",
    "writer_threads": "Threads that write, for all spaces together.",
    "reader_threads": "Threads that read, for all spaces together.",
}


def _whole(given: object) -> object:
    """Numbers as they are, or written out as the environment and flags have them; `true` is no number."""
    if isinstance(given, bool | float):
        raise ValueError("it should be a whole number")
    return given


Whole = Annotated[int, BeforeValidator(_whole)]


def limits_fields() -> dict[str, Any]:
    """The fields of `Limits`, as pydantic's `create_model` takes them."""
    return {name: _field(name, default, PROTOCOL) for name, default in msgspec.structs.asdict(Limits()).items()}


def service_fields() -> dict[str, Any]:
    """The numbers of `ServiceSettings`; `Config` adds `make_spaces`."""
    numbers = msgspec.structs.asdict(ServiceSettings())
    del numbers[_MAKERS]
    return {name: _field(name, default, SERVICE) for name, default in numbers.items()}


def settings_fields() -> dict[str, Any]:
    """The fields of `Settings`, each under the name it has as a setting."""
    numbers = msgspec.structs.asdict(Settings())
    return {RENAMED.get(name, name): _field(RENAMED.get(name, name), numbers[name], ENGINE) for name in numbers}


def all_fields() -> dict[str, Any]:
    fields = [limits_fields(), service_fields(), settings_fields()]
    named = fields[0] | fields[1] | fields[2]
    assert len(named) == sum(map(len, fields)), "a name is used for two things: add it to RENAMED"
    return named


def limits_of(values: Mapping[str, int]) -> Limits:
    return Limits(**{name: values[name] for name in Limits.__struct_fields__})


def settings_of(values: Mapping[str, int]) -> Settings:
    return Settings(**{name: values[RENAMED.get(name, name)] for name in Settings.__struct_fields__})


def service_settings_of(values: Mapping[str, int], make_spaces: frozenset[Did] | None) -> ServiceSettings:
    numbers = {name: values[name] for name in service_fields()}
    return ServiceSettings(make_spaces=make_spaces, **numbers)


def _field(name: str, default: int, group: str) -> tuple[Any, Any]:
    described = Field(
        default=default,
        ge=1,
        le=MAXIMA.get(name, NUMBER_MAX),
        description=DESCRIPTIONS.get(name, ""),
        json_schema_extra={"group": group},
    )
    return Whole, described
