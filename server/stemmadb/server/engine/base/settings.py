"""The bounds and sizes of the engine that an operator may set, each with a name."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.model.values.limits import MEBIBYTE


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one store spends on its spaces; bounds that are sent to clients are in `Limits`."""

    batch_commits_max: int = 256
    """Proposals decided and written together, with one sync."""
    batch_bytes_max: int = 8 * MEBIBYTE
    """Bodies written together, and values patched together; one proposal may be larger by itself."""
    ahead_min: int = 48
    """Proposals that have to wait to be decided while the batch before them is being written."""
    queue_max: int = 4_096
    """Proposals that wait in a space; beyond it there is no room (`Space.has_room`)."""
    queue_bytes_max: int = 64 * MEBIBYTE
    """The same in bytes, with the work of deciding them counted as such."""
    cache_bytes_max: int = 64 * MEBIBYTE
    """Heads kept in memory, of all spaces of a store together."""
    past_bytes_max: int = 16 * MEBIBYTE
    """Past states kept in memory, of all spaces of a store together."""
    sessions_max: int = 8_192
    """Sessions of a space whose highest local is kept in memory."""
    names_max: int = 4_096
    """Branches, and tags, of a space that are kept in memory."""
    moves_max: int = 32
    """How often in a row a batch is decided again because another writer was first."""
    snapshots_max: int = 256
    """Snapshots that are due and not yet written; more are dropped, and fall due again."""
    snapshot_bytes_max: int = 16 * MEBIBYTE
    """The size of the values they hold."""
    readers_max: int = 4
    """Executor calls that one space has under way for reads."""
    reads_max: int = 64
    """Questions answered on one read view, in one executor call."""
    open_spaces_max: int = 256
    """Open spaces beyond which those that nobody uses are closed."""
    space_idle_ms: int = 60_000
    """How long a space stays open that nobody uses; it is closed at the latest after twice this time."""
    writer_threads: int = 8
    reader_threads: int = 8


DEFAULTS = Settings()
