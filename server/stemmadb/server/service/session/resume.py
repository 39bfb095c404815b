"""Resuming a session: what the client holds compared with the log, and the verdicts it missed (RESUME-1..4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Hash, Local, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.session import SessionOpen
from stemmadb.protocol.wire.messages.sync import Kept, Reset
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.storage.port import LogFilter, LogReader

PAGE: Final = 256
"""Records read at once."""


class ResumeState(msgspec.Struct, frozen=True, kw_only=True):
    """What the first frame of a session has to say, as far as the log alone determines it."""

    reset: Reset | None = None
    kept: tuple[Kept, ...] = ()
    accepted: tuple[AcceptedVerdict, ...] = ()
    has_other_rights: bool = False
    """Whether the client starts over because it may now read something else."""


async def look(space: SpaceApi, message: SessionOpen) -> ResumeState:
    """Compares what the client holds with the log, on one read view."""
    return await space.read(lambda reader: compare(reader, message, space.limits))


def compare(reader: LogReader, message: SessionOpen, limits: Limits) -> ResumeState:
    to, principal, session = message.to, message.principal, message.session
    reset = _reset(reader, to, message.hash)
    kept: tuple[Kept, ...] = ()
    if reset == "history":
        kept = tuple(_kept(reader, principal, session, limits))
    since = EMPTY_SPACE if reset else to
    accepted = _accepted(reader, principal, session, since, message.lowest, limits)
    return ResumeState(reset=reset, kept=kept, accepted=tuple(accepted))


def _reset(reader: LogReader, to: Version, hash_: Hash | None) -> Reset | None:
    """Whether the client has to start over: its history is another one, or no longer kept."""
    if to == EMPTY_SPACE:
        return None
    found = reader.hashes([to]).get(to)
    if found is None or found != hash_:
        return "history"
    return "floor" if to < reader.floor() else None


def _kept(reader: LogReader, principal: Did, session: bytes, limits: Limits) -> Iterable[Kept]:
    """The last commits of this session that are here, and the last of the principal in all, oldest first.

    Those of the session on their own: another device that wrote more must not push them off the list.
    """
    count_max = limits.lost_keep_max
    own = _last(reader, LogFilter(author=principal, session=session, order="newest"), count_max)
    found = {
        one.version: one for one in (*own, *_last(reader, LogFilter(author=principal, order="newest"), count_max))
    }
    return (_kept_one(found[version], session) for version in sorted(found))


def _last(reader: LogReader, wanted: LogFilter, count_max: int) -> list[Commit]:
    """The newest commits with a local."""
    found: list[Commit] = []
    while page := reader.log(wanted, min(PAGE, count_max - len(found))):
        found += [commit for commit in page if isinstance(commit.identity, LocalIdentity)]
        if len(found) >= count_max:
            break
        wanted = msgspec.structs.replace(wanted, after=page[-1].version)
    return found


def _kept_one(commit: Commit, session: bytes) -> Kept:
    identity = commit.identity
    assert isinstance(identity, LocalIdentity)
    named = None if identity.session == session else identity.session
    return Kept(local=identity.local, session=named, version=commit.version, hash=commit.hash)


def _accepted(
    reader: LogReader, principal: Did, session: bytes, since: Version, lowest: Local, limits: Limits
) -> list[AcceptedVerdict]:
    """The verdicts of the session's own commits after a version, those below its lowest undecided one left out."""
    found: list[AcceptedVerdict] = []
    wanted = LogFilter(author=principal, session=session, order="oldest", after=since)
    while page := reader.log(wanted, PAGE):
        found += _verdicts(reader, [one for one in page if _is_open(one, lowest)], session)
        if len(found) > limits.locals_max:
            raise LimitExceeded(bound="locals_max", maximum=limits.locals_max, actual=len(found))
        wanted = msgspec.structs.replace(wanted, after=page[-1].version)
    return found


def _is_open(commit: Commit, lowest: Local) -> bool:
    return isinstance(commit.identity, LocalIdentity) and commit.identity.local >= lowest


def _verdicts(reader: LogReader, commits: Sequence[Commit], session: bytes) -> list[AcceptedVerdict]:
    """One by one: the bodies of their facts are read along, and let go."""
    found = []
    for commit in commits:
        facts = reader.facts([commit.version]).get(commit.version, ())
        found.append(records.accepted(commit, records.salts_of(facts), session=session))
    return found


async def has_written(space: SpaceApi, principal: Did) -> bool:
    """Whether the principal ever made a write here: one that lost its rights may still learn its verdicts (ACL-1)."""
    return await space.read(lambda reader: bool(reader.log(LogFilter(author=principal), 1)))
