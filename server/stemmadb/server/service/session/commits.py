"""The commits of a session on their way to the writer: read, submitted in order, and deferred in order (COMMIT-10).

A deferred commit is sent again, and so are all later ones of its session: were a later one accepted first, the
earlier would come too late. So once one is deferred, what comes after it is deferred too, until it comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from stemmadb.protocol.errors import LimitExceeded, RateLimited, StemmaError, Unavailable, Unready
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.commit.admission import Accepted, Outcome, RefusedCommit, Repeated
from stemmadb.protocol.model.commit.proposal import Meant, Proposal, prepare_or_refuse
from stemmadb.protocol.model.commit.request import PendingName, Read, digest_request
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import Did, Hash, Local
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.msgpack_codec import read_content
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.service.base.commit_event import CommitEvent
from stemmadb.server.service.session.deferred import DeferredCommits

RETRY_AFTER_MS: Final = 200
"""What a client is asked to wait when the storage could not take a commit."""

_NOTHING: Final = (Local(1), Local(0))


class Author(Protocol):
    """The session, as far as its commits need it."""

    def accepted(self, event: CommitEvent) -> None: ...

    def decided(self, identity: LocalIdentity, outcome: Repeated | RefusedCommit) -> None: ...

    def defer(self, message: Deferred) -> None: ...


class Commits:
    """The commits of one connection. Verdicts on accepted commits come from the feed, all others from here."""

    def __init__(
        self,
        space: OpenSpace,
        author: Author,
        *,
        principal: Did,
        session: bytes,
        delegated: tuple[DelegatedRights, ...],
        held: tuple[Local, ...],
        limits: Limits,
        wait_ms: Callable[[Did], int],
    ) -> None:
        """`wait_ms` is 0 if one more commit is within the rate of a principal, else how long to wait."""
        self._propose = space.propose
        self._wait_ms = wait_ms
        self._principal = principal
        self._session = session
        self._delegated = delegated
        self._limits = limits
        self._author = author
        self._held = {(session, local) for local in held}
        """What the client has the bytes of, beside what its own session sent here, which comes in order."""
        self._first, self._highest = _NOTHING
        self._undecided = 0
        self._requests: dict[PendingName, Hash] = {}
        """The digests of what came here and was not accepted: what is built on a commit later means this one, whoever
        else uses its name."""
        self._settled: dict[bytes, Local] = {}
        """The highest local whose acceptance was sent on this connection, by session."""
        self._deferred: dict[bytes, DeferredCommits] = {}
        """The commits that the client has to send again, by session."""

    @property
    def undecided(self) -> int:
        return self._undecided

    def has_bytes(self, identity: LocalIdentity) -> bool:
        """Whether the client has the bytes of this commit (SYNC-2)."""
        if identity.principal != self._principal:
            return False
        if (identity.session, identity.local) in self._held:
            return True
        return identity.session == self._session and self._first <= identity.local <= self._highest

    def take(self, message: CommitMessage) -> bool:
        """Submits it, or defers it. What cannot be read raises (WIRE-4). False if the queue is full now."""
        session, local, limits = message.session or self._session, message.local, self._limits
        content = read_content(message.content, limits)
        if not self._comes_now(session, local):
            return True
        identity = LocalIdentity(self._principal, session, local)
        request = digest_request(message.nonce, message.content)
        meant = self._meant(session, content.reads)
        proposal = prepare_or_refuse(identity, request, content, limits, self._delegated, meant)
        return self._submit(proposal, identity)

    def take_fast_path(self, proposal: Proposal) -> bool:
        """As `take`, of one of its own session that was read through no other commit."""
        identity = proposal.identity
        assert isinstance(identity, LocalIdentity), "a session sends no other commits"
        return not self._comes_now(identity.session, identity.local) or self._submit(proposal, identity)

    def _comes_now(self, session: bytes, local: Local) -> bool:
        """False if it was deferred. Either way the client has the bytes of this commit (SYNC-2)."""
        if session == self._session:
            if local < self._first or not self._highest:
                self._first = local
            self._highest = max(self._highest, local)
        else:
            self._hold(session, local)
        unready = self._waits(session, local)
        if unready is not None:
            self._defer(session, local, unready)
        return unready is None

    def _submit(self, proposal: Proposal, identity: LocalIdentity) -> bool:
        requests = self._requests
        requests[self._place(identity.session, identity.local)] = proposal.request
        if len(requests) > self._limits.locals_max:
            del requests[next(iter(requests))]
        self._undecided += 1
        return self._propose(proposal, partial(self._done, identity))

    def _meant(self, session: bytes, reads: Iterable[Read]) -> Meant:
        """Which commits its reads were made through, as sent here; plain locals are those of its own session."""
        meant: dict[PendingName, Hash] = {}
        requests, is_own = self._requests, session == self._session
        for read in reads:
            for name in read.locals:
                is_plain = is_own and isinstance(name, int)
                request = requests.get(name if is_plain else self._place(session, name))
                if request is not None:
                    meant[name] = request
        return meant or ()

    def _place(self, session: bytes, name: PendingName) -> PendingName:
        """What a commit of some session calls another one, as a commit of this session would."""
        if isinstance(name, tuple):
            session, name = name
        return name if session == self._session else (session, name)

    def _hold(self, session: bytes, local: Local) -> None:
        """The client has the bytes of this commit of an older session."""
        maximum = self._limits.locals_max
        if len(self._held) >= 2 * maximum:  # those of `session.open`, and as many of older sessions
            raise LimitExceeded(bound="locals_max", maximum=maximum, actual=maximum + 1)
        self._held.add((session, local))

    def _waits(self, session: bytes, local: Local) -> Unready | None:
        """Why it cannot be taken now, if it cannot."""
        if self._deferred and (deferred := self._deferred.get(session)):
            first = deferred.first
            if local > first:
                return deferred.unready[first]
            deferred.remove(local)
        wait_ms = self._wait_ms(self._principal)
        return RateLimited(retry_after_ms=wait_ms) if wait_ms else None

    def _done(self, identity: LocalIdentity, outcome: Outcome | StemmaError) -> None:
        """Verdicts on accepted commits of its own session come from the feed, which hears of them just before."""
        self._undecided -= 1
        if isinstance(outcome, Accepted):
            self._requests.pop(self._place(identity.session, identity.local), None)
            if identity.session != self._session:
                self._author.accepted(CommitEvent(outcome.commit, outcome.facts))
        elif isinstance(outcome, StemmaError):
            self.defer(identity, outcome if isinstance(outcome, Unready) else Unavailable())
        else:
            self._author.decided(identity, outcome)

    def settled(self, identity: LocalIdentity) -> None:
        """It was accepted after all: neither it nor what lies below it can be accepted any more, or is awaited."""
        session, local = identity.session, identity.local
        if local > self._settled.get(session, 0):
            self._settled[session] = local
        if self._deferred and (deferred := self._deferred.get(session)) is not None:
            deferred.remove_up_to(local)
            if not deferred:
                del self._deferred[session]

    def defer(self, identity: LocalIdentity, unready: Unready) -> None:
        """There is no verdict now: it is to be sent again."""
        self._defer(identity.session, identity.local, unready)

    def _defer(self, session: bytes, local: Local, unready: Unready) -> None:
        if local <= self._settled.get(session, 0):
            return  # a copy of a commit whose outcome the client already has
        self._deferred.setdefault(session, DeferredCommits()).add(local, unready)
        wait_ms: int = unready.facts.get("retry_after_ms", RETRY_AFTER_MS)
        named = None if session == self._session else session
        self._author.defer(Deferred(local=local, session=named, code=unready.code, retry_after_ms=wait_ms))
