"""Verify: walks the whole log of a space and all that is kept beside it, and names the first thing that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain as joined
from pathlib import Path
from typing import Final

import apsw
import msgspec

from stemmadb.protocol.errors import BrokenChain, StemmaError, Unavailable
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import Commit, genesis
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import Did, Hash, Version
from stemmadb.server.maintenance import check_blobs, check_rows, check_structure, contents
from stemmadb.server.maintenance.check_heads import HEADS_MAX, LogHeads, in_log
from stemmadb.server.maintenance.check_structure import FoldedStructure
from stemmadb.server.maintenance.progress import Counter, MaintenanceProgress, OnProgress, quiet
from stemmadb.server.storage.blob_directory import BlobDirectory
from stemmadb.server.storage.port import LogReader, SpaceLog, Storage, StorageFailed
from stemmadb.server.storage.sqlite import SqliteLog
from stemmadb.server.storage.sqlite.connection import DamagedFile
from stemmadb.server.storage.sqlite.storage import FILE

HINT: Final = "Check the permissions, the disk and who else uses it, and try again."


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was verified: the last commit, and how much there is."""

    space: Did
    version: Version
    hash: Hash
    facts: int
    snapshots: int
    blobs: int


def verify_space(
    storage: Storage, space: Did, *, on_progress: OnProgress = quiet, blobs_in: Path | None = None
) -> Verified:
    """Opens the log of a space and verifies it; one that is damaged may be found by opening it."""
    with _as_broken(space):
        log = storage.open(space)
    try:
        return verify(log, on_progress=on_progress, blobs_in=blobs_in)
    finally:
        log.close()


def verify(
    log: SpaceLog, *, on_progress: OnProgress = quiet, heads_max: int = HEADS_MAX, blobs_in: Path | None = None
) -> Verified:
    """Returns if all of it holds as of now; `BrokenChain` names the first place that does not (FACT-3).

    The chain of commits and facts; the structure, the last writes and the snapshots that are folds of it; that each
    body can be read and each patch applies; the bytes of the blobs; and what the backend says of its files. Memory is
    bounded whatever the length of the log. `Unavailable` if the files cannot be read now, which says nothing of them.
    `blobs_in` is where the blob files are, if that is not beside the log.
    """
    with _as_broken(log.space):
        _check_files(log, on_progress)
        with log.reader() as reader:
            made = FoldedStructure()
            last = _walk(log.space, reader, made, on_progress, heads_max)
            _check_tip(reader, last)
            check_structure.compare(made, reader)
            snapshots = contents.check(reader, made, last.facts, on_progress)
            large = log.large_blobs if blobs_in is None else BlobDirectory(blobs_in)
            blobs = check_blobs.check(log, reader, on_progress, large)
    return Verified(
        space=log.space,
        version=last.version,
        hash=last.hash,
        facts=last.facts,
        snapshots=snapshots,
        blobs=blobs,
    )


@contextmanager
def _as_broken(space: Did) -> Iterator[None]:
    """Damaged rows can make decoding fail in any way: all of them say that the files are not what was written.

    Files that cannot be opened or read now say nothing of what is in them: that is `Unavailable`.
    """
    try:
        yield
    except StemmaError:
        raise
    except (StorageFailed, OSError, MemoryError) as failed:
        if not _is_damage(failed):
            raise Unavailable(f"The files of {space} cannot be read now ({_said(failed)}). {HINT}") from failed
        raise BrokenChain(version=0, place="file", why=f"it cannot be read ({_said(failed)})") from failed
    except Exception as failed:
        raise BrokenChain(version=0, place="file", why=f"it cannot be read ({_said(failed)})") from failed


def _is_damage(failed: Exception) -> bool:
    """A table or a column that is not there is damage too."""
    return isinstance(failed, DamagedFile) or isinstance(failed.__cause__, apsw.SQLError)


def _said(failed: Exception) -> str:
    return str(failed) or type(failed).__name__


def _check_files(log: SpaceLog, on_progress: OnProgress) -> None:
    """What SQLite says of its file, and the rows that no reader is shown."""
    if isinstance(log, SqliteLog):
        on_progress(MaintenanceProgress("checking the file", 0))
        for line in joined(log.integrity(), check_rows.odd(log.directory / FILE)):
            raise BrokenChain(version=0, place=f"file {FILE}", why=line)


def _walk(
    space: Did, reader: LogReader, made: FoldedStructure, on_progress: OnProgress, heads_max: int
) -> chain.ChainProgress:
    """Follows the chain, and folds the structure of the space as it goes."""
    counter = Counter(on_progress, "walking the chain", reader.tip().version)
    current: list[tuple[Commit, tuple[Fact, ...]]] = []

    def remembered() -> Iterator[tuple[Commit, tuple[Fact, ...]]]:
        for entry in reader.history():
            current[:] = [entry]
            yield entry

    last = chain.ChainProgress(Version(0), genesis(space), 0)
    for progress in chain.verify(space, remembered(), LogHeads(in_log(reader), heads_max=heads_max)):
        last = progress
        commit, facts = current[0]
        _check_last_writes(reader, made, commit, facts)
        made.take(commit, facts)
        counter.add()
    counter.finish()
    return last


def _check_last_writes(reader: LogReader, made: FoldedStructure, commit: Commit, facts: tuple[Fact, ...]) -> None:
    """Before this write, each branch that it writes was written last where the log says (merges and forks ask)."""
    for name in check_structure.written_by(commit, facts):
        if reader.last_write(name, Version(commit.version - 1)) != made.written.get(name, 0):
            why = f"the last write before it on branch {name!r} is not the one in the log"
            raise BrokenChain(version=commit.version, place="commit", why=why)


def _check_tip(reader: LogReader, last: chain.ChainProgress) -> None:
    tip = reader.tip()
    if (tip.version, tip.hash) != (last.version, last.hash):
        raise BrokenChain(version=tip.version, place="commit", why="the log ends elsewhere than its last commit")
