"""Verdicts: what became of a commit, as its author learns it (SYNC-2, SYNC-5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from stemmadb.protocol.errors import Compacted, StemmaError
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, Current, RejectedVerdict
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.storage.port import LogReader


async def recalled(space: SpaceApi, version: Version, *, session: bytes) -> AcceptedVerdict:
    """The verdict on a commit that was accepted before, from the log (COMMIT-5)."""

    def ask(reader: LogReader) -> AcceptedVerdict:
        commit = reader.commits([version])[version]
        facts = reader.facts([version]).get(version, ())
        return records.accepted(commit, records.salts_of(facts), session=session)

    return await space.read(ask)


async def rejected(
    space: SpaceApi, identity: LocalIdentity, error: StemmaError, at: Version, *, session: bytes, with_current: bool
) -> RejectedVerdict:
    """The verdict against a commit, with what its stale reads are at the version it was decided at (SYNC-5)."""
    limits = space.limits
    stale: Sequence[StaleRead] = tuple(error.facts.get("stale", ()))[: limits.page_max]
    current: Iterable[Current] = ()
    if stale and with_current:
        with suppress(Compacted):  # just now: the client asks for it
            current = await space.read(lambda reader: _current(reader, stale, at, limits))
    named = None if identity.session == session else identity.session
    return problems.rejected(identity.local, error, session=named, current=current, limits=limits)


def _current(reader: LogReader, stale: Iterable[StaleRead], at: Version, limits: Limits) -> list[Current]:
    """As many as fit into a rejection; the other values are not kept."""
    wanted: dict[BranchName, dict[EntityId, None]] = {}
    for read in stale:
        wanted.setdefault(read.branch, {})[read.id] = None
    return list(problems.fitting((_current_of(branch, one) for branch, one in _loaded(reader, wanted, at)), limits))


def _loaded(
    reader: LogReader, wanted: dict[BranchName, dict[EntityId, None]], at: Version
) -> Iterator[tuple[BranchName, LoadedEntity]]:
    for branch, ids in wanted.items():
        spans = moments.resolve(reader, ReadMoment(branch, at)).spans
        for id_ in ids:
            for one in states.load(reader, spans, [id_]).values():
                yield branch, one


def _current_of(branch: BranchName, one: LoadedEntity) -> Current:
    value = one.value
    encoded = None if isinstance(value, Missing) else body.encode(value)
    return Current(branch=branch, id=one.id, version=one.place.version, hash=one.hash, body=encoded)
