"""Scrub: removes from files what was destroyed, without failing other writes (ERASE-1, BLOB-2).

All of it runs in the writer's turn, in a worker thread: no blob is between its file and its row meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Final

from stemmadb.protocol import errors
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.engine.blobs.uploads import Uploads
from stemmadb.server.storage.port import DiskFull, SpaceLog, StorageFailed

_STILL_THERE: Final = (
    "Files of this space still hold bytes that were destroyed, and cannot be written anew now, so there is no answer "
    "yet. Ask again with the same operation id when nobody reads an older state."
)


class Unscrubbed(StorageFailed):
    """Files of the log may still hold what was destroyed; no question to the log finds it.

    The log must be opened again as after any failure. Nothing else that is under way is concerned.
    """

    def __init__(self, failure: StorageFailed) -> None:
        super().__init__(str(failure))
        self._is_full = isinstance(failure, DiskFull)

    def as_error(self) -> errors.Unready:
        """The error for the caller whose answer waits for the scrub (COMMIT-10)."""
        return errors.StorageFull() if self._is_full else errors.Unavailable(_STILL_THERE)


def scrub(log: SpaceLog) -> None:
    """Scrubs the files, or raises `Unscrubbed`."""
    try:
        log.scrub()
    except StorageFailed as failure:
        raise Unscrubbed(failure) from failure


def scrub_owed(log: SpaceLog) -> None:
    """The same if a destruction is owed it."""
    if log.owes_scrub:
        scrub(log)


def clean_up(log: SpaceLog) -> None:
    """Removes files that have no row, as far as they can be removed now, and scrubs what is owed."""
    with suppress(errors.StemmaError):
        large = log.large_blobs
        if large is not None and log.is_alone and not large.is_shared:
            remove_blob_files(log, [name.hash for name in large.names()])
    scrub_owed(log)


def remove_files(log: SpaceLog, hashes: Collection[Hash]) -> None:
    """Removes what files hold of blobs whose rows are gone, half uploads included."""
    if log.large_blobs is not None:
        removed = remove_blob_files(log, hashes)
        Uploads(log.directory, uploads_max=0).drop(removed)


def remove_blob_files(log: SpaceLog, hashes: Collection[Hash]) -> Collection[Hash]:
    """Removes the files of those that have no row, and gives those."""
    assert log.large_blobs is not None, "somebody looked whether there may be any"
    with log.reader() as reader:
        removed = [hash_ for hash_ in hashes if reader.blob(hash_) is None]
    log.large_blobs.remove(removed)
    return removed


def stored_in_files(log: SpaceLog, hashes: Collection[Hash]) -> frozenset[Hash]:
    """Those of the blobs that have a file, whether whole or half uploaded, and whether or not they have a row."""
    if log.large_blobs is None:
        return frozenset()
    uploads = Uploads(log.directory, uploads_max=0)
    return frozenset(hashes).intersection([*(name.hash for name in log.large_blobs.names()), *uploads.names()])
