"""The branches and tags of a space as of an earlier version: what happened since is taken back (QUERY-6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.log.commit_record import Arguments, BranchCreate, TagCreate, TagDelete
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.engine.base.paging import LOOKED_AT_MAX
from stemmadb.server.storage.port import LogFilter, LogReader, Order, StoredTag

RECORDS_PAGE: Final = 256


def branches(log: LogReader, version: Version) -> dict[str, BranchState]:
    """The branches that there were, as they were: none ever goes, so it is enough to leave out the newer ones."""
    newer = {made.name for made in _since(log, version) if isinstance(made, BranchCreate)}
    return {state.name: _as_of(state, version) for state in log.branches() if state.name not in newer}


def tags(log: LogReader, version: Version) -> dict[str, StoredTag]:
    """The tags that there were. One that was deleted since is looked for where it was made."""
    found = {tag.name: tag for tag in log.tags()}
    changed = {made.name for made in _since(log, version) if isinstance(made, TagCreate | TagDelete)}
    for name in changed:
        found.pop(name, None)
    for made in _before(log, version) if changed else ():
        if isinstance(made, TagCreate | TagDelete) and made.name in changed:
            changed.remove(made.name)
            if isinstance(made, TagCreate):
                found[made.name] = StoredTag(made.name, made.branch, made.version)
        if not changed:
            break
    return found


def _as_of(state: BranchState, version: Version) -> BranchState:
    return state if state.deleted is None or state.deleted <= version else replace(state, deleted=None)


def _since(log: LogReader, version: Version) -> Iterator[Arguments]:
    return _details(log, "oldest", version)


def _before(log: LogReader, version: Version) -> Iterator[Arguments]:
    return _details(log, "newest", Version(version + 1))


def _details(log: LogReader, order: Order, after: Version) -> Iterator[Arguments]:
    """What the writes beside ordinary commits did, one after the other; no more of them than a call looks at."""
    wanted = LogFilter(structural=True, order=order, after=after)
    for _ in range(LOOKED_AT_MAX // RECORDS_PAGE):
        page = log.log(wanted, RECORDS_PAGE)
        for commit in page:
            assert commit.details is not None, "only these were asked for"
            yield commit.details
        if len(page) < RECORDS_PAGE:
            return
        wanted = replace(wanted, after=page[-1].version)
    raise Malformed(path="after", why="too much has changed since the first page; begin again")
