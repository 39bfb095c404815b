"""The bounds that keep every request finite, each with a name; a server announces its own in `hello`."""

from __future__ import annotations

import msgspec

MEBIBYTE = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults of docs/spec/07-invariants.md. A bound that is passed is named in `LimitExceeded`."""

    message_bytes_max: int = 16 * MEBIBYTE
    part_bytes_max: int = 1 * MEBIBYTE
    value_bytes_max: int = 8 * MEBIBYTE
    depth_max: int = 64
    id_bytes_max: int = 512
    operations_max: int = 1_000
    bulk_operations_max: int = 100_000
    patch_operations_max: int = 1_000
    reads_max: int = 10_000
    locals_max: int = 10_000
    scan_facts_max: int = 10_000
    note_bytes_max: int = 64 * 1024
    watches_max: int = 256
    roots_max: int = 1_000
    query_entities_max: int = 10_000
    query_depth_max: int = 64
    query_bytes_max: int = 64 * MEBIBYTE
    query_work_max: int = 20_000_000
    ordered_entities_max: int = 1_000_000
    schema_bytes_max: int = 1 * MEBIBYTE
    page_max: int = 1_000
    branch_depth_max: int = 64
    blob_chunk_bytes_max: int = 1 * MEBIBYTE
    blob_bytes_max: int = 1024 * MEBIBYTE
    quiet_versions_max: int = 1_000
    lost_keep_max: int = 1_000


DEFAULTS = Limits()
