"""A commit of an HTTP request: becomes a proposal, is decided once, and answered from its record (HTTP-5, HTTP-9)."""

from __future__ import annotations

from typing import Any, Final

from stemmadb.protocol.errors import Conflict, IdentityClash, RateLimited, StemmaError, Unavailable, Unready
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit
from stemmadb.protocol.model.commit.proposal import prepare_or_refuse
from stemmadb.protocol.model.commit.request import Content, digest_request
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Local, Version
from stemmadb.protocol.wire.codec.json_form import form_of, without_defaults
from stemmadb.protocol.wire.codec.msgpack_codec import read_content
from stemmadb.protocol.wire.messages.commit import RejectedVerdict
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.http.callers.calls import HTTP_SESSION, SpaceCall
from stemmadb.server.http.writes.identities import OwnSessions, WriteIdentity, check_key, keyed
from stemmadb.server.service.session import verdicts
from stemmadb.server.storage.port import HttpKey, LogReader

KEY_BYTES: Final = 32
ANOTHER: Final = "Another request was accepted before under this Idempotency-Key. Use a new key for new work."
UNCOMPARABLE: Final = (
    "A request was accepted before under this Idempotency-Key, and an erasure since makes it impossible to compare "
    "the two. Read the entity to see what is there."
)


class RefusedWrite(Exception):
    """A verdict against a commit, with what its stale reads are now."""

    def __init__(self, error: StemmaError, extra: dict[str, Any]) -> None:
        super().__init__(error.message)
        self.error = error
        self.extra = extra


class DoneCommit:
    """A commit in the log, whether this request made it or an earlier one with the same key."""

    def __init__(self, commit: Commit, facts: tuple[Fact, ...], identity: WriteIdentity) -> None:
        self.commit = commit
        self.facts = facts
        self._identity = identity

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Without a key the answer says what the commit is known by."""
        if self._identity.is_keyed:
            return ()
        return (("Stemma-Identity", f"{self._identity.name.hex()}.{self._identity.local}"),)


class CommitWriter:
    """Writes the commits of all HTTP requests of one server."""

    def __init__(self, own: OwnSessions) -> None:
        self._own = own

    async def identity(self, call: SpaceCall[Any]) -> tuple[WriteIdentity | None, HttpKey | None]:
        """What the caller's key makes of its commit; without a key one is taken just before submitting."""
        key = call.head.one("idempotency-key")
        if key is None:
            return None, None
        secret = await space_key(call)
        return keyed(call.principal, check_key(key), secret.key), secret

    async def write(self, call: SpaceCall[Any], content: Content) -> DoneCommit:
        """The commit, once it is durable; `RefusedWrite` is the verdict against it."""
        found, secret = await self.identity(call)
        return await self.write_as(call, content, found, secret)

    async def write_as(
        self, call: SpaceCall[Any], content: Content, found: WriteIdentity | None, secret: HttpKey | None
    ) -> DoneCommit:
        service, space = call.context.service, call.hub.space
        wait_ms = service.commit_rates.take(call.principal)
        if wait_ms:
            raise RateLimited(retry_after_ms=wait_ms)
        if not space.has_room:
            raise Unavailable("Too many commits are waiting in this space. Try again in a moment.")
        data = encode(without_defaults(content))
        read = read_content(data, call.limits)
        named = found or self._own.next(space.did, call.principal)
        identity = LocalIdentity(call.principal, named.name, named.local)
        request = digest_request(named.nonce, data)
        proposal = prepare_or_refuse(identity, request, read, call.limits, call.bearer.delegated)
        try:
            outcome = await space.decide(proposal)
        except Unready:
            self._own.deferred(space.did, call.principal, named.name)
            raise
        if isinstance(outcome, Accepted):
            return DoneCommit(outcome.commit, outcome.facts, named)
        if isinstance(outcome, RefusedCommit):
            raise await _refused(call, identity, outcome, secret)
        return DoneCommit(*await space.read(lambda reader: _record(reader, outcome.version)), named)


async def space_key(call: SpaceCall[Any]) -> HttpKey:
    """The secret of the space, made if there is none (HTTP-9)."""
    fresh = call.context.random(KEY_BYTES)
    return await call.hub.space.in_turn(lambda log: log.http_key(fresh))


async def accepted_at(call: SpaceCall[Any], named: WriteIdentity) -> Version | None:
    """The version at which a commit of this identity was accepted before, if one was."""
    identity = LocalIdentity(call.principal, named.name, named.local)
    known = await call.hub.space.read(lambda reader: reader.accepted([identity]).get(identity))
    return None if known is None else known.version


def _record(reader: LogReader, version: Version) -> tuple[Commit, tuple[Fact, ...]]:
    return reader.commits([version])[version], reader.facts([version]).get(version, ())


async def lost_state(call: SpaceCall[Any], id_: EntityId, branch: BranchName, version: Version) -> RefusedWrite:
    """The verdict on a write over a state that this history never had, with what is there now (HTTP-8)."""
    at = call.hub.space.version

    def ask(reader: LogReader) -> StaleRead:
        found = states.load(reader, moments.resolve(reader, ReadMoment(branch, at)).spans, [id_]).get(id_)
        now = Version(0) if found is None else found.place.version
        return StaleRead(branch=branch, id=id_, read=version, head=now, winner=now)

    stale = (await call.hub.space.read(ask),) if call.caller().rights.may_read(id_) else ()
    identity = LocalIdentity(call.principal, HTTP_SESSION, Local(1))
    return await _refused(call, identity, RefusedCommit(Conflict(count=1, stale=stale), at), None)


async def _refused(
    call: SpaceCall[Any], identity: LocalIdentity, outcome: RefusedCommit, secret: HttpKey | None
) -> RefusedWrite:
    error = outcome.error
    call.hub.counts.rejections[error.code] += 1
    if isinstance(error, IdentityClash):
        return clash(error, secret)
    rejected: RejectedVerdict = await verdicts.rejected(
        call.hub.space, identity, error, outcome.at, session=identity.session, with_current=True
    )
    written = form_of(RejectedVerdict).write(rejected)
    return RefusedWrite(error, {name: written[name] for name in ("stale", "current") if name in written})


def clash(error: IdentityClash, secret: HttpKey | None) -> RefusedWrite:
    """Says that the first write is there, where only an erasure since keeps us from comparing the two (HTTP-9)."""
    version = error.facts.get("version")
    if secret is None or version is None or version > secret.since:
        return RefusedWrite(IdentityClash(ANOTHER, local="Idempotency-Key"), {"details": {}})
    return RefusedWrite(
        IdentityClash(UNCOMPARABLE, local="Idempotency-Key"), {"details": {"accepted": True, "version": version}}
    )
