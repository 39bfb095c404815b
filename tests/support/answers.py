"""Everything a reader can be asked about a log, as plain data, so that two read views can be compared whole."""

from __future__ import annotations

from typing import NamedTuple

from logs import LogMaker
from random_logs import IDS, PREFIXES
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Identity, LocalIdentity
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.server.engine.base import states
from stemmadb.server.storage.port import LogFilter, LogReader

MANY = 1_000
EVERY_ID = list(map(EntityId, IDS))


class Asked(NamedTuple):
    """What there is to ask after: everything that a log holds by the time this is made."""

    versions: list[Version]
    times: range
    identities: list[Identity]
    branches: list[BranchName]
    lineages: list[tuple[Span, ...]]


def asked_of(maker: LogMaker) -> Asked:
    moments = [(name, version) for name in sorted(maker.branches) for version in range(maker.version + 1)]
    return Asked(
        versions=[Version(version) for version in range(maker.version + 2)],
        times=range(990, maker.now + 10),
        identities=[record.identity for record in maker.commits],
        branches=sorted(maker.branches),
        lineages=list({maker.spans(*moment) for moment in moments}),
    )


def everything(reader: LogReader, asked: Asked) -> dict[str, object]:
    """All answers of a reader, however much it sees of what it is asked after.

    How an entity is replayed is up to the snapshots there are; what it is replayed to is not.
    """
    return {**_structure(reader, asked), **_entities(reader, asked), **_history(reader, asked), **_beside(reader)}


def _structure(reader: LogReader, asked: Asked) -> dict[str, object]:
    locals_ = [identity for identity in asked.identities if isinstance(identity, LocalIdentity)]
    return {
        "tip": reader.tip(),
        "branches": reader.branches(),
        "branch": [reader.branch(name) for name in asked.branches],
        "tags": reader.tags(),
        "floor": reader.floor(),
        "last_write": [reader.last_write(name, at) for name in asked.branches for at in asked.versions],
        "version_at": [reader.version_at(TimeMs(time)) for time in asked.times],
        "accepted": reader.accepted(asked.identities),
        "highest_local": reader.highest_locals([(one.principal, one.session) for one in locals_]),
    }


def _entities(reader: LogReader, asked: Asked) -> dict[str, object]:
    return {
        "states": [states_of(reader, spans) for spans in asked.lineages],
        "ids": [reader.ids(prefix, None, MANY) for prefix in PREFIXES],
        "changed": [set(reader.changed(spans)) for spans in asked.lineages],
        "changed_after": [
            set(reader.changed_after(spans, "urn:a", at, MANY))
            for spans in asked.lineages
            for at in asked.versions[::5]
        ],
    }


def states_of(reader: LogReader, spans: tuple[Span, ...]) -> dict[EntityId, object]:
    loaded = states.load(reader, spans, EVERY_ID)
    return {id_: (state.value, state.version, state.hash, state.place) for id_, state in loaded.items()}


def _history(reader: LogReader, asked: Asked) -> dict[str, object]:
    return {
        "log": reader.log(LogFilter(), MANY),
        "facts": reader.facts(asked.versions),
        "facts_of": [reader.facts_of(id_) for id_ in EVERY_ID],
        "authors": reader.authors(asked.versions),
        "commits": reader.commits(asked.versions),
        "history": list(reader.history()),
    }


def _beside(reader: LogReader) -> dict[str, object]:
    blobs = sorted(reader.blobs(), key=lambda blob: blob.hash)
    return {
        "snapshots": sorted(reader.snapshots(), key=lambda snapshot: snapshot.place),
        "blobs": blobs,
        "blob": {blob.hash: reader.blob(blob.hash) for blob in blobs},
        "blob_data": {blob.hash: reader.blob_data(blob.hash) for blob in blobs},
    }
