"""A session: the nursery, the journal and the connection of one space, joined. `link` carries its bytes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from stemmadb.client.cache.records import AsOf, CacheStep
from stemmadb.client.journal.port import ConfirmedCommit, Done, Journal, JournalState, JournalStep
from stemmadb.client.keys.identity import Identity
from stemmadb.client.nursery import cascade
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.nursery.outcomes import CommitRefusal, Integrated
from stemmadb.client.nursery.pending import Pending, named
from stemmadb.client.nursery.plans import CommitPlan
from stemmadb.client.session import journal_records
from stemmadb.client.session.cache import GATHER_SECONDS, RIGHTS_LOST, CacheStatus, SessionCache
from stemmadb.client.session.handle import Handle
from stemmadb.client.session.losses import Losses
from stemmadb.client.session.notifier import Notifier, OnHead
from stemmadb.client.session.outgoing import Outgoing
from stemmadb.client.session.refused import Refused, forget_current, rejected_commit
from stemmadb.client.session.request_queue import OnAnswer, OutgoingRequests
from stemmadb.client.session.requester import SessionRequester
from stemmadb.client.session.settings import DEFAULT_SETTINGS, ClientSettings
from stemmadb.client.session.subscriptions import Subscriptions
from stemmadb.protocol.errors import Conflict, JournalFailed, LimitExceeded, Malformed, StemmaError, TakenOver
from stemmadb.protocol.model.values.ids import RANDOM_ID_BYTES, Did, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.client_side import (
    Answered,
    ClientConnection,
    ClientEvent,
    SessionPosition,
    Unread,
)
from stemmadb.protocol.wire.messages.base import Part
from stemmadb.protocol.wire.messages.commit import Deferred
from stemmadb.protocol.wire.messages.session import Ping
from stemmadb.protocol.wire.messages.sync import Kept, Sync
from stemmadb.protocol.wire.version import FOLLOW

_log = logging.getLogger("stemmadb.client")

NEW_SESSION_CODES: Final = frozenset({"identity_clash", "overtaken"})
"""Verdicts that say that another client uses this session too (NURSERY-5)."""
ENVELOPE_BYTES: Final = 128
"""What a message has around the content of a commit, at most."""
RESTORED: Final = (
    "The server went back to another history, and what this commit read is not in it. Read again and retry."
)
GONE_BACK: Final = (
    "The server went back to another history, and the versions that this write names are other commits there. "
    "Read again and retry."
)


class ClientSession:
    """One space, as one principal. It outlives connections, and with a journal it outlives the app."""

    def __init__(
        self,
        space: Did,
        identity: Identity,
        *,
        journal: Journal,
        random: Callable[[int], bytes],
        now: Callable[[], TimeMs],
        settings: ClientSettings = DEFAULT_SETTINGS,
        delegations: tuple[bytes, ...] = (),
        cache: bool = False,
    ) -> None:
        self.space = space
        self.identity = identity
        self.settings = settings
        self.delegations = delegations
        self.nursery = Nursery(identity.did)
        self.why_offline: StemmaError | None = None
        self.server: Did | None = None
        """The server that the last connection led to; None before the first."""
        self.reconnect: Callable[[], None] = _nothing
        """Asks the link to give up its connection and open another."""
        self.resubmit: Callable[[Refused, Sequence[Mapping[str, Any]] | None], Awaitable[Any]]
        """Makes a new transaction of a refused one."""
        self._journal = journal
        self._random = random
        self.now = now
        state = journal.load()
        self.id = state.session or random(RANDOM_ID_BYTES)
        self._issued = {self.id: _highest(self.id, state)}
        self._losses = Losses(state.confirmed, bytes_max=settings.lost_bytes_max)
        self.notifier = Notifier((Refused(one, self) for one in state.rejected), hurry=self._flush_now)
        self._requests = OutgoingRequests()
        self.requester = SessionRequester(
            self._requests, random=random, ask_seconds=settings.ask_seconds, why_silent=lambda: self.why_offline
        )
        self._begin_watching(cache)
        self._outgoing = Outgoing(find=self.nursery.find, refuse=self._refuse_one)
        self._connection: ClientConnection | None = None
        self._following: ClientConnection | None = None
        """The connection on which the server was asked for a frame after every commit."""
        self._send: Callable[[Data], bool] = _nowhere
        self._opened = self.id
        self.is_open = False
        """Whether the first frame of the connection has come."""
        self._is_sending = False
        self._is_blind = False
        """Whether a frame left out facts that are not known here: nothing more of its connection is taken."""
        self._flush_due: asyncio.Handle | None = None
        self.failure: StemmaError | None = None
        """Why the journal cannot be written: nothing new is taken."""
        self.ended: StemmaError | None = None
        """The error of every call after the end."""
        self._retrying: set[CommitName] = set()
        self.pending_bytes = 0
        self.is_known = journal.keeps and state.standing is not None
        """Whether the space was open here before, so that an app can go on without a server."""
        self._restore(state)
        self._journaled = {one.name for one in state.pending}
        self._was_sent = set(self._journaled)
        """Undecided commits that an earlier connection may have carried: the server may have accepted them."""
        for pending in self.nursery.pending():
            self._take_charge(pending).mark_journaled()
        if state.session is None:
            self._journal.write(JournalStep(session=self.id), self._unless_failed)

    def _begin_watching(self, has_cache: bool) -> None:
        self._cache = SessionCache(
            self.nursery,
            is_on=has_cache,
            bytes_max=self.settings.cache_bytes_max,
            delegations=self.delegations,
            now=self.now,
        )
        self.has_cache = has_cache
        self._is_cache_due = False
        """Whether a step of the cache will be written soon."""
        self.subscriptions = Subscriptions(
            self.nursery,
            self._requests,
            self.requester,
            space=self.space,
            cache=self._cache,
            idle_max=self.settings.cache_idle_watches_max,
        )
        self.subscriptions.as_of = self.as_of

    def _restore(self, state: JournalState) -> None:
        """What an earlier run of the app had cached, with its undecided commits on top (CACHE-3, NURSERY-5)."""
        self.is_cached = self._restore_cache(state)
        """Whether there are values that can be shown before there is a connection."""
        journal_records.restore(self.nursery, state)
        if self.is_cached and state.cache is not None:
            self.nursery.pass_over(state.cache.head.integrated)

    # ------------------------------------------------------------ own commits

    def submit(self, plan: CommitPlan, *, history: int | None = None) -> Handle:
        """In the view at once, then into the journal, then to the server (NURSERY-5).

        What was read in a `history` that the server no longer has is refused at once: its versions would be taken for
        those of this one (RESUME-4).
        """
        self._check_taking()
        name = CommitName(self.id, Local(self._issued[self.id] + 1))
        pending = named(plan, name, nonce=self._random(RANDOM_ID_BYTES))
        self._check_room(pending)
        self._issued[self.id] = name.local
        handle = self._take_charge(pending)
        if history is None or history == self.nursery.history:
            refusal = self.nursery.add(pending, plan.bases)
        else:
            refusal = cascade.refused_locally(pending, Conflict(RESTORED, count=0, stale=()), self.nursery.to)
        if refusal is not None:
            self._settle(Integrated(refused=(refusal,)))
            return handle
        if self._journal.keeps:
            step = JournalStep(
                add=(journal_records.journaled(pending, self.nursery),),
                standing=self._standing(),
                cache=self._cache.step(),
            )
            self._journal.write(step, lambda error: self._on_journaled(pending, error))
        else:
            self._on_journaled(pending, None)
        self.subscriptions.wake()
        return handle

    def _check_taking(self) -> None:
        """Nothing is taken that would never be sent: after the end, or without a journal that works (NURSERY-7)."""
        why = self.ended or self.failure
        if why is not None:
            raise why.with_traceback(None)

    def _take_charge(self, pending: Pending) -> Handle:
        self.pending_bytes += len(pending.content)
        return self.notifier.begin(pending.name)

    def _check_room(self, pending: Pending) -> None:
        """A full nursery says so before anything is applied: the app can wait with `settled`, or tell its user."""
        settings, size = self.settings, len(pending.content)
        if len(self.nursery) >= settings.pending_max:
            raise _too_much("pending_max", settings.pending_max, len(self.nursery) + 1)
        if self.pending_bytes + size > settings.pending_bytes_max:
            raise _too_much("pending_bytes_max", settings.pending_bytes_max, self.pending_bytes + size)
        if size + ENVELOPE_BYTES > self.requester.limits.message_bytes_max:
            raise _too_much("message_bytes_max", self.requester.limits.message_bytes_max, size + ENVELOPE_BYTES)

    def _on_journaled(self, pending: Pending, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)
            self._settle(Integrated(refused=self.nursery.refuse(pending.name, self._failure(error))))
            return
        self.notifier.journaled(pending.name)
        if self.nursery.find(pending.name) is not None:  # it was not rejected meanwhile
            self._journaled.add(pending.name)
            self._outgoing.add(pending)
            self._flush_soon()

    def _flush_soon(self) -> None:
        """In the next turn of the loop, so that the app's own turn is short; sooner if it waits for a verdict."""
        if self._flush_due is None:
            self._flush_due = asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        due, self._flush_due = self._flush_due, None
        if due is not None:
            due.cancel()
            self.flush()

    def _is_pending(self, name: CommitName) -> bool:
        return self.nursery.find(name) is not None

    def _refuse_one(self, pending: Pending, error: StemmaError) -> None:
        self._settle(Integrated(refused=self.nursery.refuse(pending.name, error)))

    async def retry(self, refused: Refused, operations: Sequence[Mapping[str, Any]] | None) -> Any:
        """The same commit once more, on the current values, and only once more (`refused.Retrying`)."""
        name = refused.name
        if name in self._retrying or name not in self.notifier.rejected_commits:
            why = "it was tried again or dropped already"
            raise Malformed(f"This commit is not among the rejected ones: {why}.", path="rejected", why=why)
        self._retrying.add(name)
        try:
            again = await self.resubmit(refused, operations)
        finally:
            self._retrying.discard(name)
        self.drop((name,))
        return again

    def drop(self, names: Iterable[CommitName]) -> None:
        """Deletes rejected commits for good."""
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        gone = tuple(name for name in names if self.notifier.rejected_commits.pop(name, None) is not None)
        if gone:
            self._journal.write(JournalStep(drop=gone), self._unless_failed)

    # ------------------------------------------------------------ connections

    def standing(self, limits: Limits) -> SessionPosition:
        """Where the next connection goes on, within what this server takes (RESUME-1)."""
        self.requester.limits = limits
        if self.server is not None and not self._cache.is_of(self.server):
            self.drop_cache()
        own = [one.name.local for one in self.nursery.pending() if one.name.session == self.id]
        watches = self.subscriptions.held()
        return SessionPosition(
            to=self.nursery.to,
            hash=self.nursery.hash,
            lowest=own[0] if own else Local(self._issued[self.id] + 1),
            held=tuple(own[: self.requester.limits.locals_max]),
            watches=watches,
            delegations=self.delegations,
        )

    def begin(self, connection: ClientConnection, send: Callable[[Data], bool]) -> None:
        """`session.open` was sent: requests follow at once, commits after the first frame."""
        self._connection, self._send, self._opened = connection, send, self.id
        self.requester.features = connection.features
        self._requests.open(connection, send)
        self._follow_heads()
        self.subscriptions.begin_rest()
        self._is_sending = self._is_blind = False
        self._outgoing.start_over(())  # nothing was sent on this one yet
        if connection.may_commit:
            self._send_again()

    def lost(self, why: StemmaError) -> None:
        """The connection is over, or could not be made; requests wait for the next one."""
        self.why_offline = why
        self.is_open = False
        self._connection = None
        self._was_sent.update(name for name in self._outgoing.sent if self._is_pending(name))
        self._requests.lose()
        if why.code in RIGHTS_LOST:
            self.drop_cache()
        if isinstance(why, TakenOver):
            self._take_new_session()

    def refuse_requests(self, error: StemmaError) -> None:
        """The server refuses the session: callers get the error and are not left waiting."""
        self._requests.refuse(error)

    def ask_for_life(self, on_answer: OnAnswer) -> None:
        """Asks the server for a sign of life, on this connection only."""
        self._requests.ask(Ping, {}, on_answer, is_lasting=False)

    def on_head(self, callback: OnHead) -> Callable[[], None]:
        """Calls it whenever the space has a newer version; returns how to stop that."""
        stop = self.notifier.on_head(callback)
        self._follow_heads()
        return stop

    def _follow_heads(self) -> None:
        """Asks for a frame after every commit, once on each connection; an older server sends one within a second."""
        is_new = self._connection is not None and self._following is not self._connection
        if is_new and self.notifier.follows_heads and FOLLOW in (self.requester.features or ()):
            self._following = self._connection
            self._requests.ask(Ping, {"follow": True}, _ignore_answer, is_lasting=False)

    def _send_again(self) -> None:
        """Sends every undecided journaled commit, the oldest first, once on each connection (RESUME-2)."""
        self._is_sending = True
        self._outgoing.start_over(one for one in self.nursery.pending() if one.name in self._journaled)
        self.flush()

    def flush(self) -> None:
        """Sends what is ready, once everything undecided has its place in the queue."""
        if self._connection is not None and self._is_sending:
            self._outgoing.flush(self._connection, self._send, session=self._opened)

    def drained(self) -> None:
        """All that was to be sent is sent: there is room for more."""
        self._outgoing.drained()
        self.flush()

    def handle(self, event: ClientEvent) -> None:
        """What the server said."""
        if self._is_blind:
            return
        if isinstance(event, Sync):
            self._integrate(event)
        elif isinstance(event, Answered):
            self._requests.answered(event)
        elif isinstance(event, Deferred):
            self._defer(event)
        elif isinstance(event, Unread) and event.local is not None:
            name = CommitName(event.session or self._opened, event.local)
            self._settle(Integrated(refused=self.nursery.refuse(name, event.error)))
            self.flush()

    def _defer(self, event: Deferred) -> None:
        """Not a verdict: it stays pending and is sent again, and so are the later ones (COMMIT-10)."""
        was_paused = self._outgoing.is_paused
        name = CommitName(event.session or self._opened, event.local)
        if self._outgoing.defer(name) and not was_paused:
            pause = max(event.retry_after_ms / 1_000, self.settings.first_pause_seconds)
            asyncio.get_running_loop().call_later(pause, self._resume, self._connection)

    def _resume(self, connection: ClientConnection | None) -> None:
        if connection is self._connection:
            self._outgoing.resume()
            self.flush()

    # ------------------------------------------------------------ frames

    def _integrate(self, frame: Sync) -> None:
        if self.nursery.is_blind_to(frame, session=self._opened):
            self._is_blind = True
            self._take_new_session()
            self.reconnect()
            return
        done = self.nursery.integrate(frame, session=self._opened, issued=self._issued[self._opened])
        if frame.verdicts:
            self._outgoing.settled([CommitName(one.session or self._opened, one.local) for one in frame.verdicts])
        lost: list[ConfirmedCommit] = []
        if frame.reset == "history":
            lost = self._compare(frame.kept)
            more = self.nursery.refuse_all(Conflict(RESTORED, count=0, stale=()))
            done = done._replace(refused=(*done.refused, *more))
            self._forget_current_values()
            self.notifier.on_restored()  # last: what it calls is not ours, and nothing of the above may be left out
        is_first = not self.is_open
        if is_first:
            self._requests.begin(Conflict(GONE_BACK, count=0, stale=()) if frame.reset == "history" else None)
            # The verdicts of other sessions come only once their commits are sent again.
            self.nursery.pass_over(name for name in self._was_sent if name.session != self._opened)
        self.is_open, self.why_offline = True, None
        self._cache.heard = self.now()
        if is_first or any(item.kind == "erase" for item in frame.commits):
            self._cache.scrub()
        if any(error.code in RIGHTS_LOST for _, error in done.ended):
            self.drop_cache()
        self._settle(done, lost, is_first=is_first)
        for number, _ in done.ended:
            self.subscriptions.ended(number)
        if not self._is_sending:
            self._send_again()
        elif self._outgoing.ready:
            self.flush()
        wanted = self.nursery.wanted()
        if wanted:
            self.subscriptions.ask_for(wanted)
        self.notifier.reached(frame.to)

    def _compare(self, kept: Sequence[Kept]) -> list[ConfirmedCommit]:
        """The confirmed commits that the server lost; those it may still have are not among them (RESUME-4)."""
        found = self._losses.compare(kept, self._opened, count_max=self.requester.limits.lost_keep_max)
        if found.unknown:
            _log.warning(
                "the server was restored and listed only its last commits: whether it has %d older ones, confirmed "
                "at versions %d to %d, is not known. Read their entities before you write them again.",
                len(found.unknown),
                min(one.version for one in found.unknown),
                max(one.version for one in found.unknown),
            )
        return found.lost

    def _forget_current_values(self) -> None:
        """A retry must not stand on values of another history, in the next run of the app neither (RESUME-4)."""
        rejected = self.notifier.rejected_commits.values()
        if any(one.record.current for one in rejected):
            for one in rejected:
                forget_current(one)
            step = JournalStep(reject=tuple(one.record for one in rejected))  # all of them: they keep their order
            self._journal.write(step, self._unless_failed)

    def _settle(self, done: Integrated, lost: Sequence[ConfirmedCommit] = (), *, is_first: bool = False) -> None:
        """Journals what became of commits, then notifies; takes a new session if another client uses this one.

        Where the first frame of a connection leads is kept as well: the space is known here from then on.
        """
        refused = [Refused(rejected_commit(one, self.now()), self) for one in done.refused]
        names = [*(one.pending.name for one in done.confirmed), *(one.name for one in refused)]
        if refused:
            self._outgoing.settled([one.name for one in refused if one.rejected_because_of is None])
        self._journaled.difference_update(names)
        self._was_sent.difference_update(names)
        confirmed = tuple(journal_records.confirmed(one) for one in done.confirmed)
        # Before the journal has them: a restore may be seen sooner than the disk is done.
        beyond = self._losses.add(confirmed, count_max=self.requester.limits.lost_keep_max)
        self.pending_bytes -= sum(len(one.pending.content) for one in done.confirmed)
        self.pending_bytes -= sum(len(one.pending.content) for one in done.refused)
        self.subscriptions.wake()
        if not self._journal.keeps:
            self._notify(done, refused, lost, None)
        elif names or lost or is_first:
            self._journal.write(
                JournalStep(
                    confirm=confirmed,
                    reject=tuple(one.record for one in refused),
                    forget=(*beyond, *(one.name for one in lost)),
                    standing=self._standing(),
                    cache=self._cache.step(),
                ),
                lambda error: self._notify(done, refused, lost, error),
            )
        if self.has_cache:
            self._gather()
        if done.strangers or any(self._is_taken(one) for one in done.refused):
            self._take_new_session()
            self.reconnect()

    def _is_taken(self, refusal: CommitRefusal) -> bool:
        """Whether it says that somebody else makes commits in the session in which new ones are made here."""
        return refusal.code in NEW_SESSION_CODES and refusal.pending.name.session == self.id

    def _notify(
        self, done: Integrated, refused: list[Refused], lost: Sequence[ConfirmedCommit], error: Exception | None
    ) -> None:
        """Once it is on disk. If the disk refuses, a confirmation is still true; a refusal might be decided anew."""
        if error is not None:
            self._fail(error)
        for one in done.confirmed:
            self.notifier.confirmed(one)
        for each in refused:
            self.notifier.refused(each)
        if lost:
            self.notifier.losses(lost)

    def _take_new_session(self) -> None:
        """New commits are made in it; undecided ones are sent again under their old names (NURSERY-5)."""
        self.id = self._random(RANDOM_ID_BYTES)
        self._issued = {self._opened: self._issued.get(self._opened, 0), self.id: 0}
        self._journal.write(JournalStep(session=self.id), self._unless_failed)

    # ------------------------------------------------------------ the cache

    def _restore_cache(self, state: JournalState) -> bool:
        """Before anything is on top of it: the values that an earlier run had watched (CACHE-3)."""
        cache = self._cache.usable(state.cache, state.standing)
        if cache is None:
            if state.cache is not None:
                self.drop_cache()
            return False
        watches = tuple(self.subscriptions.restore(self._cache.whole(cache)))
        self._cache.restore(cache, watches)
        return bool(watches)

    def _gather(self) -> None:
        """What frames changed is written soon, several frames together (CACHE-2)."""
        if self._cache.is_due and not self._is_cache_due:
            self._is_cache_due = True
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._write_cache)

    def _write_cache(self) -> None:
        self._is_cache_due = False
        if self.ended is None and self._cache.is_due:
            self._write_cache_step(self._cache.step())

    def _write_cache_step(self, step: CacheStep | None, done: Done | None = None) -> None:
        """A step of the cache never goes without where the journal stands: neither is older than the other."""
        if step is not None:
            made = JournalStep(standing=self._standing(), cache=step)
            self._journal.write(made, done or self._unless_failed)
        elif done is not None:
            done(None)

    def drop_cache(self) -> None:
        """Rights were lost or are others, or it is another server's: nothing of it may stay (CACHE-4)."""
        self._write_cache_step(self._cache.drop())
        self.subscriptions.wake()

    async def forget(self) -> None:
        """Deletes the cache, and caches nothing more in this run; returns once no byte of it is on the disk."""
        self._check_taking()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written(error: Exception | None) -> None:
            self._unless_failed(error)
            if not done.done():
                done.set_result(None)

        self._write_cache_step(self._cache.turn_off(), written)
        self.subscriptions.drop_idle()
        await done
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    @property
    def cache_status(self) -> CacheStatus:
        if self.has_cache and self._journal.is_cache_full:
            return "full"
        return "on" if self._cache.is_on else "off"

    def as_of(self) -> AsOf | None:
        """How old what is shown is; None while the server tells of every change."""
        return None if self.is_open else AsOf(self.nursery.to, self._cache.heard)

    # ------------------------------------------------------------ the journal

    @property
    def keeps(self) -> bool:
        """Whether what is undecided survives this run of the app."""
        return self._journal.keeps and self.failure is None

    def _standing(self) -> tuple[Version, Hash] | None:
        return None if self.nursery.hash is None else (self.nursery.to, self.nursery.hash)

    def _unless_failed(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or self._failure(error)

    @staticmethod
    def _failure(error: Exception) -> StemmaError:
        return error if isinstance(error, StemmaError) else JournalFailed(path="", why=str(error))

    async def close(self, error: StemmaError) -> int:
        """Lets the journal go; gives how many commits were undecided and are kept nowhere. Once; then nothing."""
        if self.ended is not None:
            return 0
        self.ended = error
        undecided = len(self.notifier.undecided())
        if self._standing() is not None:
            step = JournalStep(standing=self._standing(), cache=self._cache.step())
            self._journal.write(step, self._unless_failed)
        self.subscriptions.end_all(error)
        await self._journal.close()
        self.notifier.abandon(error)
        return 0 if self.keeps else undecided


def _highest(session: bytes, state: JournalState) -> int:
    """The highest local that is used: one rejected before it was journaled is only among the rejected commits."""
    return max([state.last_local, *(one.name.local for one in state.rejected if one.name.session == session)])


def _too_much(bound: str, maximum: int, actual: int) -> LimitExceeded:
    return LimitExceeded(bound=bound, maximum=maximum, actual=actual)


def _nothing() -> None:
    """There is no link yet."""


def _ignore_answer(_result: Part | StemmaError) -> None:
    """Whoever asked needs no answer: frames follow, or the connection is lost and the next one asks again."""


def _nowhere(_data: Data) -> bool:
    raise AssertionError("nothing is sent without a connection")
