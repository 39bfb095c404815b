"""The bounds of the protocol, the service and the engine as settings: every field of each, under its own name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from pydantic import BeforeValidator, Field

from stemmadb.protocol.model.ids import Did
from stemmadb.protocol.model.limits import Limits
from stemmadb.server.engine.settings import Settings
from stemmadb.server.service.settings import ServiceSettings
from stemmadb.server.storage.port import FACTS_MAX

NUMBER_MAX: Final = 2**53
"""Larger numbers are not told exactly in JSON."""
DEPTH_MAX: Final = 128
"""Values are walked by nested calls, whose number is bounded too."""
RENAMED: Final = {"reads_max": "cut_reads_max"}
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
PROTOCOL: Final = "Bounds of requests, which clients are told"
SERVICE: Final = "Bounds of principals, sessions and watches"
ENGINE: Final = "Sizes of the engine"
_MAKERS: Final = "make_spaces"
"""The one field of the service that is no number; `Config` has it."""

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "opening_timeout_ms": "Until a session has to be open on a WebSocket.",
    "connections_per_principal_max": "Connections of one principal.",
    "requests_per_second": "Requests of one principal in a second, over all its connections.",
    "commits_per_second": "Commits of one principal in a second, over all its connections.",
    "requests_at_once_max": "Requests of one connection that are worked on together; the others wait.",
    "unsent_bytes_max": "Bytes that wait for one client; beyond it nothing more is built for it.",
    "feed_bytes_max": "Bytes of recent batches that are kept of each space.",
    "feed_batches_max": "Recent batches that are kept of each space.",
    "watch_groups_max": "Different watches of one space; equal ones count once.",
    "room_linger_ms": "How long a space that nobody is in is followed, for those who come back.",
    "rooms_max": "Spaces that are followed although nobody is in them.",
    "quiet_ms": "How long a session may be without a frame while others commit what it does not watch.",
    "sweep_ms": "How often uploads that nobody goes on with are removed.",
    "message_bytes_max": "Bytes of a message.",
    "part_bytes_max": "Bytes of a part of a frame, unless one fact is larger.",
    "value_bytes_max": "Bytes of a value or a patch, in its shortest encoding.",
    "depth_max": "Nested containers of a value.",
    "id_bytes_max": "Bytes of an entity id or an id prefix.",
    "operations_max": "Operations of a commit.",
    "bulk_operations_max": "Operations of a merge, a revert or an erasure.",
    "patch_operations_max": "Operations of a patch.",
    "reads_max": "Declared reads of a commit.",
    "locals_max": "Pending commits named by one read.",
    "scan_facts_max": "Facts of others looked at to decide one read; past it the read counts as stale.",
    "note_bytes_max": "Bytes of the message and the metadata of a commit.",
    "watches_max": "Watches of a session.",
    "roots_max": "Roots of a query.",
    "query_entities_max": "Entities of an answer.",
    "query_depth_max": "Links followed in a row.",
    "query_bytes_max": "Bytes of the values of an answer.",
    "schema_bytes_max": "Bytes of a schema.",
    "page_max": "Entries of a page.",
    "branch_depth_max": "Nested branches.",
    "blob_chunk_bytes_max": "Bytes of a chunk of a blob.",
    "blob_bytes_max": "Bytes of a blob.",
    "quiet_versions_max": "Versions after which a quiet session gets an empty frame.",
    "lost_keep_max": "Confirmed commits a client keeps, to report them as lost after a restore.",
    "batch_commits_max": "Commits decided and written together, with one sync.",
    "batch_bytes_max": "Bytes of bodies written together, and of values patched together.",
    "queue_bytes_max": "Bytes of commits that wait in a space; past it nothing more is read from their senders.",
    "watched_entities_max": "Entities in all different watches of one space together.",
    "ahead_min": "Commits that have to wait to be decided while the batch before them is being written.",
    "queue_max": "Commits that wait in a space; past it nothing more is read from those who send them.",
    "cache_bytes_max": "Bytes of heads kept in memory, of all spaces together.",
    "past_bytes_max": "Bytes of past states kept in memory, of all spaces together.",
    "sessions_max": "Sessions of a space whose highest local is kept in memory.",
    "names_max": "Branches, and tags, of a space that are kept in memory.",
    "moves_max": "How often in a row a batch is decided again because another writer was first.",
    "snapshots_max": "Snapshots that are due and not yet written; more are dropped, and fall due again.",
    "snapshot_bytes_max": "Bytes of the values that those snapshots hold.",
    "readers_max": "Hops into reader threads that one space has under way.",
    "cut_reads_max": "Questions answered on one cut, in one hop into a reader thread.",
    "open_spaces_max": "Spaces kept open although nobody uses them.",
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
    """The numbers of `ServiceSettings`; `Config` adds who may make spaces."""
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
