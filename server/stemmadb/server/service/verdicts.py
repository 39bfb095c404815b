"""Verdicts: what became of a commit, as its author is told (SYNC-2, SYNC-5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from stemmadb.protocol.errors import Compacted, StemmaError
from stemmadb.protocol.model import body
from stemmadb.protocol.model.commit import LocalIdentity
from stemmadb.protocol.model.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.limits import Limits
from stemmadb.protocol.model.stale import StaleRead
from stemmadb.protocol.model.state import Missing
from stemmadb.protocol.wire import problems, records
from stemmadb.protocol.wire.messages.commit import Accepted, Current, Rejected
from stemmadb.server.engine import moments, states
from stemmadb.server.engine.api import SpaceApi
from stemmadb.server.engine.moments import Moment
from stemmadb.server.engine.states import Loaded
from stemmadb.server.storage.port import LogReader


async def recalled(space: SpaceApi, version: Version, *, session: bytes) -> Accepted:
    """The verdict on a commit that was accepted before, from the log (COMMIT-5)."""

    def ask(reader: LogReader) -> Accepted:
        commit = reader.commits([version])[version]
        facts = reader.facts([version]).get(version, ())
        return records.accepted(commit, records.salts_of(facts), session=session)

    return await space.read(ask)


async def rejected(
    space: SpaceApi, identity: LocalIdentity, error: StemmaError, at: Version, *, session: bytes, with_current: bool
) -> Rejected:
    """The verdict against a commit, with what its stale reads are at the version it was decided at (SYNC-5)."""
    limits = space.limits
    stale: Sequence[StaleRead] = tuple(error.facts.get("stale", ()))[: limits.page_max]
    current: Iterable[Current] = ()
    if stale and with_current:
        with suppress(Compacted):  # meanwhile: it is asked for
            current = await space.read(lambda reader: _current(reader, stale, at, limits))
    named = None if identity.session == session else identity.session
    return problems.rejected(identity.local, error, session=named, current=current, limits=limits)


def _current(reader: LogReader, stale: Iterable[StaleRead], at: Version, limits: Limits) -> list[Current]:
    """As many as a rejection has room for; of the others no value is kept."""
    wanted: dict[BranchName, dict[EntityId, None]] = {}
    for read in stale:
        wanted.setdefault(read.branch, {})[read.id] = None
    return list(problems.fitting((_told(branch, one) for branch, one in _loaded(reader, wanted, at)), limits))


def _loaded(
    reader: LogReader, wanted: dict[BranchName, dict[EntityId, None]], at: Version
) -> Iterator[tuple[BranchName, Loaded]]:
    for branch, ids in wanted.items():
        spans = moments.resolve(reader, Moment(branch, at)).spans
        for id_ in ids:
            for one in states.load(reader, spans, [id_]).values():
                yield branch, one


def _told(branch: BranchName, one: Loaded) -> Current:
    value = one.value
    told = None if isinstance(value, Missing) else body.encode(value)
    return Current(branch=branch, id=one.id, version=one.place.version, hash=one.hash, body=told)
