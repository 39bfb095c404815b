"""A session: the nursery, the journal and the connection of one space, joined. `link` carries its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from stemmadb.client.journal.port import ConfirmedCommit, Journal, JournalState, JournalStep
from stemmadb.client.keys.identity import Identity
from stemmadb.client.nursery import falling
from stemmadb.client.nursery.held import CommitName
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.nursery.outcomes import Integrated, Refusal
from stemmadb.client.nursery.pending import Pending, named
from stemmadb.client.nursery.plans import Plan
from stemmadb.client.session import keeping
from stemmadb.client.session.asker import SessionAsker
from stemmadb.client.session.handle import Handle
from stemmadb.client.session.losses import Losses
from stemmadb.client.session.outgoing import Outgoing
from stemmadb.client.session.questions import Questions, Told
from stemmadb.client.session.refused import Refused, forget_current, trayed
from stemmadb.client.session.settings import DEFAULT_SETTINGS, ClientSettings
from stemmadb.client.session.subscriptions import Subscriptions
from stemmadb.client.session.telling import Telling
from stemmadb.protocol.errors import Conflict, JournalFailed, LimitExceeded, Malformed, StemmaError, TakenOver
from stemmadb.protocol.model.ids import RANDOM_ID_BYTES, Did, Hash, Local, TimeMs, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.client_side import Answered, ClientConnection, ClientEvent, Standing, Unread
from stemmadb.protocol.wire.codec import Data
from stemmadb.protocol.wire.messages.commit import Deferred
from stemmadb.protocol.wire.messages.session import Ping
from stemmadb.protocol.wire.messages.sync import Sync

NEW_SESSION_CODES: Final = frozenset({"identity_clash", "overtaken"})
"""Verdicts that say that this session is somebody else's too (NURSERY-5)."""
ENVELOPE_BYTES: Final = 128
"""What a message has around the content of a commit, at most."""
RESTORED: Final = (
    "The server went back to another history, and what this commit read is not in it. Read again and retry."
)
GONE_BACK: Final = (
    "The server went back to another history, and the versions that this write names are other commits there. "
    "Read again and retry."
)


class Session:
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
    ) -> None:
        self.space = space
        self.identity = identity
        self.settings = settings
        self.delegations = delegations
        self.nursery = Nursery(identity.did)
        self.why_offline: StemmaError | None = None
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
        self._losses = Losses(state.confirmed, count_max=DEFAULTS.lost_keep_max, bytes_max=settings.lost_bytes_max)
        self.telling = Telling(Refused(one, self) for one in state.tray)
        self._questions = Questions()
        self.asker = SessionAsker(
            self._questions, random=random, ask_seconds=settings.ask_seconds, why_silent=lambda: self.why_offline
        )
        self.subscriptions = Subscriptions(self.nursery, self._questions, self.asker, space=space)
        self._outgoing = Outgoing(is_pending=self._is_pending, refuse=self._refuse_one)
        self._connection: ClientConnection | None = None
        self._send: Callable[[Data], bool] = _nowhere
        self._opened = self.id
        self.is_open = False
        """Whether the first frame of the connection has come."""
        self._is_sending = False
        self._is_blind = False
        """Whether a frame left out facts that are not known here: nothing more of its connection is taken."""
        self._is_flush_due = False
        self.failure: StemmaError | None = None
        """Why the journal cannot be written: nothing new is taken."""
        self.ended: StemmaError | None = None
        """Said to whoever comes after the end."""
        self._retrying: set[CommitName] = set()
        self.pending_bytes = 0
        self.is_known = journal.keeps and state.standing is not None
        """Whether the space was open here before, so that an app can go on without a server."""
        keeping.restore(self.nursery, state)
        self._kept = {one.name for one in state.pending}
        self._was_sent = set(self._kept)
        """Undecided commits that an earlier connection may have carried: the server may have accepted them."""
        for pending in self.nursery.pending():
            self._take_charge(pending).keep()
        if state.session is None:
            self._journal.write(JournalStep(session=self.id), self._unless_failed)

    # ------------------------------------------------------------ own commits

    def submit(self, plan: Plan, *, history: int | None = None) -> Handle:
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
            refusal = falling.refused_here(pending, Conflict(RESTORED, count=0, stale=()), self.nursery.to)
        if refusal is not None:
            self._settle(Integrated(refused=(refusal,)))
            return handle
        if self._journal.keeps:
            step = JournalStep(keep=(keeping.kept(pending, self.nursery),), standing=self._standing())
            self._journal.write(step, lambda error: self._kept_or_not(pending, error))
        else:
            self._kept_or_not(pending, None)
        self.subscriptions.wake()
        return handle

    def _check_taking(self) -> None:
        """Nothing is taken that would never be sent: after the end, or without a journal that works (NURSERY-7)."""
        why = self.ended or self.failure
        if why is not None:
            raise why.with_traceback(None)

    def _take_charge(self, pending: Pending) -> Handle:
        self.pending_bytes += len(pending.content)
        return self.telling.begin(pending.name)

    def _check_room(self, pending: Pending) -> None:
        """A full nursery says so before anything is applied: the app can wait with `settled`, or tell its user."""
        settings, size = self.settings, len(pending.content)
        if len(self.nursery) >= settings.pending_max:
            raise _too_much("pending_max", settings.pending_max, len(self.nursery) + 1)
        if self.pending_bytes + size > settings.pending_bytes_max:
            raise _too_much("pending_bytes_max", settings.pending_bytes_max, self.pending_bytes + size)
        if size + ENVELOPE_BYTES > self.asker.limits.message_bytes_max:
            raise _too_much("message_bytes_max", self.asker.limits.message_bytes_max, size + ENVELOPE_BYTES)

    def _kept_or_not(self, pending: Pending, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)
            self._settle(Integrated(refused=self.nursery.refuse(pending.name, self._failure(error))))
            return
        self.telling.kept(pending.name)
        if self._is_pending(pending.name):  # it has not fallen meanwhile
            self._kept.add(pending.name)
            self._outgoing.add(pending)
            self._flush_soon()

    def _flush_soon(self) -> None:
        """In the next turn of the loop: whoever writes does not wait for it, and what is written together goes so."""
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._is_flush_due = False
        self.flush()

    def _is_pending(self, name: CommitName) -> bool:
        return self.nursery.find(name) is not None

    def _refuse_one(self, pending: Pending, error: StemmaError) -> None:
        self._settle(Integrated(refused=self.nursery.refuse(pending.name, error)))

    async def retry(self, refused: Refused, operations: Sequence[Mapping[str, Any]] | None) -> Any:
        """The same commit once more, on the current values, and only once more (`refused.Retrying`)."""
        name = refused.name
        if name in self._retrying or name not in self.telling.tray:
            why = "it was tried again or dropped already"
            raise Malformed(f"This commit is not in the tray: {why}.", path="rejected", why=why)
        self._retrying.add(name)
        try:
            again = await self.resubmit(refused, operations)
        finally:
            self._retrying.discard(name)
        self.drop((name,))
        return again

    def drop(self, names: Iterable[CommitName]) -> None:
        """Takes refused commits out of the tray, for good."""
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        gone = tuple(name for name in names if self.telling.tray.pop(name, None) is not None)
        if gone:
            self._journal.write(JournalStep(drop=gone), self._unless_failed)

    # ------------------------------------------------------------ connections

    def standing(self, limits: Limits) -> Standing:
        """Where the next connection goes on, within what this server takes (RESUME-1)."""
        self.asker.limits = limits
        own = [one.name.local for one in self.nursery.pending() if one.name.session == self.id]
        watches = self.subscriptions.held()
        return Standing(
            to=self.nursery.to,
            hash=self.nursery.hash,
            lowest=own[0] if own else Local(self._issued[self.id] + 1),
            held=tuple(own[: self.asker.limits.locals_max]),
            watches=watches,
            delegations=self.delegations,
        )

    def begin(self, connection: ClientConnection, send: Callable[[Data], bool]) -> None:
        """`session.open` was sent: questions follow at once, commits after the first frame."""
        self._connection, self._send, self._opened = connection, send, self.id
        self._questions.open(connection, send)
        self.subscriptions.begin_rest()
        self._is_sending = self._is_blind = False
        self._outgoing.start_over(())  # nothing was sent on this one yet
        if connection.may_commit:
            self._send_again()

    def lost(self, why: StemmaError) -> None:
        """The connection is over, or could not be made; questions wait for the next one."""
        self.why_offline = why
        self.is_open = False
        self._connection = None
        self._was_sent.update(name for name in self._outgoing.sent if self._is_pending(name))
        self._questions.lose()
        if isinstance(why, TakenOver):
            self._take_new_session()

    def refuse_questions(self, error: StemmaError) -> None:
        """The server will not have us: whoever asks is told so, and not left waiting."""
        self._questions.refuse(error)

    def ask_for_life(self, told: Told) -> None:
        """Asks the server for a sign of life, on this connection only."""
        self._questions.ask(Ping, {}, told, is_lasting=False)

    def _send_again(self) -> None:
        """Everything undecided that is kept, the oldest first, once on each connection (RESUME-2)."""
        self._is_sending = True
        self._outgoing.start_over(one for one in self.nursery.pending() if one.name in self._kept)
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
            self._questions.answered(event)
        elif isinstance(event, Deferred):
            self._defer(event)
        elif isinstance(event, Unread) and event.local is not None:
            name = CommitName(event.session or self._opened, event.local)
            self._settle(Integrated(refused=self.nursery.refuse(name, event.error)))
            self.flush()

    def _defer(self, event: Deferred) -> None:
        """Not a verdict: it stays pending and is sent again, and so are the later ones (COMMIT-10)."""
        was_held = self._outgoing.is_held
        name = CommitName(event.session or self._opened, event.local)
        if self._outgoing.defer(name) and not was_held:
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
        self._outgoing.settled(CommitName(one.session or self._opened, one.local) for one in frame.verdicts)
        lost: list[ConfirmedCommit] = []
        if frame.reset == "history":
            lost = self._losses.compare(frame.kept, self._opened)
            more = self.nursery.refuse_all(Conflict(RESTORED, count=0, stale=()))
            done = done._replace(refused=(*done.refused, *more))
            self._void_tray()
            self.telling.on_restored()  # last: what it calls is not ours, and nothing of the above may be left out
        is_first = not self.is_open
        if is_first:
            self._questions.begin(Conflict(GONE_BACK, count=0, stale=()) if frame.reset == "history" else None)
            # The verdicts of other sessions come only once their commits are sent again.
            self.nursery.pass_over(name for name in self._was_sent if name.session != self._opened)
        self.is_open, self.why_offline = True, None
        self._settle(done, lost, is_first=is_first)
        for number, _ in done.ended:
            self.subscriptions.ended(number)
        if self._is_sending:
            self.flush()
        else:
            self._send_again()
        self.subscriptions.ask_for(self.nursery.wanted())

    def _void_tray(self) -> None:
        """A retry must not stand on values of another history, in the next run of the app neither (RESUME-4)."""
        tray = self.telling.tray.values()
        if any(one.record.current for one in tray):
            for one in tray:
                forget_current(one)
            step = JournalStep(tray=tuple(one.record for one in tray))  # all of them: they keep their order
            self._journal.write(step, self._unless_failed)

    def _settle(self, done: Integrated, lost: Sequence[ConfirmedCommit] = (), *, is_first: bool = False) -> None:
        """Keeps what became of commits, then tells it; takes a new session where this one is not ours alone.

        Where the first frame of a connection leads is kept as well: the space is known here from then on.
        """
        refused = [Refused(trayed(one, self.now()), self) for one in done.refused]
        names = [*(one.pending.name for one in done.confirmed), *(one.name for one in refused)]
        self._outgoing.settled(one.name for one in refused if one.fell_with is None)
        self._kept.difference_update(names)
        self._was_sent.difference_update(names)
        for one in done.confirmed:  # before the journal has it: a restore may be seen sooner than the disk is done
            self._losses.add(keeping.confirmed(one))
        self.pending_bytes -= sum(len(one.pending.content) for one in done.confirmed)
        self.pending_bytes -= sum(len(one.pending.content) for one in done.refused)
        self.subscriptions.wake()
        if names or lost or is_first:
            self._journal.write(
                JournalStep(
                    confirm=tuple(keeping.confirmed(one) for one in done.confirmed),
                    tray=tuple(one.record for one in refused),
                    forget=tuple(one.name for one in lost),
                    standing=self._standing(),
                ),
                lambda error: self._tell(done, refused, lost, error),
            )
        if done.strangers or any(self._is_taken(one) for one in done.refused):
            self._take_new_session()
            self.reconnect()

    def _is_taken(self, refusal: Refusal) -> bool:
        """Whether it says that somebody else makes commits in the session in which new ones are made here."""
        return refusal.code in NEW_SESSION_CODES and refusal.pending.name.session == self.id

    def _tell(
        self, done: Integrated, refused: list[Refused], lost: Sequence[ConfirmedCommit], error: Exception | None
    ) -> None:
        """Once it is on disk. If the disk refuses, a confirmation is still true; a refusal might be decided anew."""
        if error is not None:
            self._fail(error)
        for one in done.confirmed:
            self.telling.confirmed(one)
        for each in refused:
            self.telling.refused(each)
        self.telling.losses(lost)

    def _take_new_session(self) -> None:
        """New commits are made in it; undecided ones are sent again under their old names (NURSERY-5)."""
        self.id = self._random(RANDOM_ID_BYTES)
        self._issued = {self._opened: self._issued.get(self._opened, 0), self.id: 0}
        self._journal.write(JournalStep(session=self.id), self._unless_failed)

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
        undecided = len(self.telling.undecided())
        if self._standing() is not None:
            self._journal.write(JournalStep(standing=self._standing()), self._unless_failed)
        self.subscriptions.end_all(error)
        await self._journal.close()
        self.telling.abandon(error)
        return 0 if self.keeps else undecided


def _highest(session: bytes, state: JournalState) -> int:
    """The highest local that is used: one that was refused before it was kept is only in the tray, by its name."""
    return max([state.last_local, *(one.name.local for one in state.tray if one.name.session == session)])


def _too_much(bound: str, maximum: int, actual: int) -> LimitExceeded:
    return LimitExceeded(bound=bound, maximum=maximum, actual=actual)


def _nothing() -> None:
    """There is no link yet."""


def _nowhere(_data: Data) -> bool:
    raise AssertionError("nothing is sent without a connection")
