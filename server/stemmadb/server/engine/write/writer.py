"""The single writer of a space: gathers, decides, appends, publishes (COMMIT-1, COMMIT-5, COMMIT-10, COMMIT-11).

One task does it all, batch by batch. While a batch is in flight (being appended and synced in a worker) the next one
is taken, gathered and decided on the state that includes it; it is written once that is durable. A verdict, also a
rejection, is published only then. If a write fails, everything decided on it is void: where another writer was first
it is decided again, after an error of the storage every caller that waits gets an error in place of a verdict.

What a write destroyed is scrubbed from the files before its verdict is published (ERASE-1). Where that cannot be done
now the caller has no verdict yet, all others go on, and it is tried again: before the next answer to a write that
destroys, when nothing waits, and when the space is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, Outcome
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.values.ids import Did, TimeMs, Version
from stemmadb.server.engine.base.batch_answers import WorkResult, answer
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.base.head_cache import Share
from stemmadb.server.engine.base.inputs import Inputs
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.write import due_snapshots, scrub
from stemmadb.server.engine.write.decider import BatchDecision, Decider
from stemmadb.server.engine.write.due_snapshots import Backlog
from stemmadb.server.engine.write.in_flight import InFlight
from stemmadb.server.engine.write.queue import QueueEntry, WriteQueue, settle
from stemmadb.server.engine.write.scrub import Unscrubbed
from stemmadb.server.log_events import Log
from stemmadb.server.storage.port import (
    AcceptedWrite,
    AppendBatch,
    Destroyed,
    DiskFull,
    LogMoved,
    Snapshot,
    SpaceLog,
    StorageFailed,
    no_snapshots,
)

T = TypeVar("T")
LOG: Final = Log("engine")

SCRUB_AGAIN_MS: Final = 60_000
"""How long a scrub that failed is not tried again of our own accord: a try may keep commits waiting for seconds."""


class Writer:
    """Used from one event loop; everything that blocks runs in its workers."""

    def __init__(
        self,
        space: Did,
        log: OpenLog,
        workers: Workers,
        heads: Share,
        inputs: Inputs,
        durable: Callable[[Version, Sequence[Accepted]], None],
    ) -> None:
        settings = inputs.settings
        self._log = log
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._space = space
        self._counts = inputs.counts.space(space)
        self._durable = durable
        """Called in order with the version the log is known to have reached, and what this writer added to reach it.
        """
        self._wake = asyncio.Event()
        self._in_flight = InFlight(log, workers, self._write_ended, self._counts.append_seconds)
        self._decider = Decider(space, log, workers, heads, self._in_flight, inputs)
        self._queue = WriteQueue(settings)
        self._backlog = Backlog(count_max=settings.snapshots_max, bytes_max=settings.snapshot_bytes_max)
        self._now = inputs.now
        self._scrub_failed: TimeMs | None = None
        """When the last scrub failed."""
        self._ahead_min = settings.ahead_min
        self._moves_max = settings.moves_max
        self._moves = 0
        self._taken: Sequence[QueueEntry] = ()
        """Taken from the queue, and not in flight yet."""
        self._is_called = False
        """Whether what has come is looked at in the next turn of the loop."""
        self._is_resting = False
        """Whether the task sleeps until something comes."""
        self._is_stopping = False
        self._refusal: type[errors.Unready] | None = None
        self._failing = ""
        """The code that the last write failed with; empty once one has succeeded."""
        """Why nothing is taken at the moment."""
        self._task: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        """True while fewer than `queue_max` entries wait; sessions stop reading commits while it is False."""
        return self._queue.has_room

    @property
    def is_busy(self) -> bool:
        return bool(self._queue.waiting or self._taken or self._in_flight.is_under_way)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Finishes what has come so far and refuses what comes now."""
        self._is_stopping, self._refusal = True, errors.Unavailable
        self._wake.set()
        assert self._task is not None, "it was started"
        await asyncio.wait([self._task])

    # ------------------------------------------------------------ what others ask for

    def submit(self, proposal: Proposal, destroyed: Destroyed | None = None) -> asyncio.Future[Outcome]:
        """Without a task of its own: a commit costs the loop little more than its decision."""
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._put(QueueEntry(partial(settle, future), proposal, destroyed=destroyed))
        return future

    def propose(self, proposal: Proposal, done: Callable[[Outcome | errors.StemmaError], None]) -> bool:
        """As `submit`; calls back at once, in the order of the log, instead of waking a task.

        Returns `has_room`, as it is then.
        """
        return self._put(QueueEntry(done, proposal))

    async def in_turn(self, work: Callable[[SpaceLog], T]) -> T:
        future: asyncio.Future[WorkResult[T]] = self._loop.create_future()
        self._put(QueueEntry(partial(settle, future), None, work=work))
        return (await future).given()

    def _put(self, entry: QueueEntry) -> bool:
        if self._refusal is not None:
            entry.fail(self._refusal())
            return self._queue.has_room
        self._counts.queued += 1
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._go_on)
        return self._queue.put(entry)

    # ------------------------------------------------------------ without the task

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """After all that came in one turn of the loop, and after a write: writes at once if nothing is waited for.

        Most commits need neither a read nor a turn of the task, which costs a good part of a single one.
        """
        self._is_called = False
        if not self._is_resting or not self._write_at_once():
            self._wake.set()

    def _write_ended(self) -> None:
        """The write in flight has ended, well or not."""
        owes_something = self._backlog.due or self._log.owes_scrub
        if self._is_resting and not (self._in_flight.is_under_way or self._is_stopping or owes_something):
            if self._queue.waiting:
                self._call()  # callers that were answered just now may bring more
        else:
            self._wake.set()

    def _write_at_once(self) -> bool:
        """Whether all that waits is on its way, or is taken once the write in flight has completed."""
        if self._in_flight.is_under_way:
            return not self._in_flight.has_ended and self._queue.waiting < self._ahead_min
        if not self._queue.waiting:
            return False
        entries = self._queue.take()
        try:
            decision = None if entries[0].goes_alone else self._decider.at_once(_proposals(entries))
        except Exception:  # the task meets it again, and answers the callers that wait
            self._decider.forget()
            decision = None
        if decision is None:
            self._queue.put_back(entries)
            return False
        self._counts.queued -= len(entries)
        self._send_off(entries, decision)
        return not self._queue.waiting

    # ------------------------------------------------------------ the task

    async def _run(self) -> None:
        if self._log.has_files or self._log.owes_scrub:
            self._in_flight.start((), scrub.clean_up, lambda _: None)
        while not self._is_stopping or self.is_busy or self._owes_snapshots:
            try:
                await (self._turn() if self._queue.waiting else self._rest())
            except LogMoved:
                await self._decide_again()
            except Unscrubbed as failure:
                await self._still_owe(failure)
            except StorageFailed as failure:
                await self._give_up(failure)
            except Exception as error:
                _report("internal error in the writer of a space", error)
                await self._give_up(StorageFailed())

    async def _rest(self) -> None:
        """Nothing waits: does what is owed, and sleeps until something comes or what is in flight ends."""
        if self._in_flight.has_ended:
            await self._in_flight.completed()
        elif self._may_scrub and not self._in_flight.is_under_way:
            self._in_flight.start((), scrub.scrub_owed, lambda _: None)
        elif self._owes_snapshots and not self._in_flight.is_under_way:
            await asyncio.sleep(0)  # callers answered just now may bring more, and snapshots go along with it
            if not self._queue.waiting:
                due = self._backlog.take()
                self._in_flight.start((), lambda log: log.store_snapshots(due_snapshots.encoded(due)), lambda _: None)
        else:
            self._wake.clear()
            self._is_resting = True
            try:
                await self._wake.wait()
            finally:
                self._is_resting = False

    @property
    def _owes_snapshots(self) -> bool:
        """Where others write too, snapshots wait for an append: that fails if an erasure came before it."""
        return self._log.is_alone and bool(self._backlog.due)

    @property
    def _may_scrub(self) -> bool:
        """Whether a scrub is owed, and did not fail just now."""
        if self._is_stopping or not self._log.owes_scrub:
            return False
        return self._scrub_failed is None or abs(self._now() - self._scrub_failed) >= SCRUB_AGAIN_MS

    async def _turn(self) -> None:
        """Takes a batch until its write has started; what could not be decided with it is the next one.

        While one is in flight only a large one is decided ahead: fewer and larger batches cost less than the wait.
        """
        if self._in_flight.is_under_way and self._queue.waiting < self._ahead_min:
            await self._in_flight.completed()
        entries = self._taken = self._queue.take()
        self._counts.queued -= len(entries)
        if entries[0].goes_alone:
            await self._go_alone(entries[0])
            return
        decision = await self._decide(entries)
        await self._in_flight.completed()
        self._send_off(entries, decision)
        if self._queue.waiting:
            self._workers.give_way()  # it takes off before the next batch is decided, which keeps the loop busy
        await asyncio.sleep(0)

    def _send_off(self, entries: Sequence[QueueEntry], decision: BatchDecision) -> None:
        """What was not decided is the next batch."""
        decided = len(decision.outcomes)
        if decided < len(entries):
            self._put_back(entries[decided:])
        self._taken = entries[:decided]
        self._write(decision)

    async def _go_alone(self, entry: QueueEntry) -> None:
        """Work, or a write that destroys something, with nothing else in flight."""
        await self._in_flight.completed()
        if entry.work is not None:
            self._taken = ()
            self._in_flight.start([entry], partial(_do, entry.work), entry.answer)
            return
        # Also before it is said that the same write was accepted before: its own scrub may be what is owed.
        self._taken = ()
        self._in_flight.start([entry], scrub.scrub_owed, lambda _: None)
        await self._in_flight.completed()
        self._taken = [entry]
        decision = await self._decide([entry])
        self._backlog.clear()  # nothing of what is destroyed may be written again as a snapshot
        self._write(decision, entry.destroyed)
        await self._in_flight.completed()
        self._decider.forget()
        self._backlog.clear()

    async def _decide(self, entries: Sequence[QueueEntry]) -> BatchDecision:
        return await self._decider.decide(_proposals(entries), lambda version: self._durable(version, ()))

    # ------------------------------------------------------------ write and publish

    def _write(self, decision: BatchDecision, destroyed: Destroyed | None = None) -> None:
        """Starts the one append of the batch. Where nothing was accepted it only asks for the tail, unless alone."""
        entries, self._taken = self._taken, ()
        if not decision.accepted and self._log.is_alone:
            self._publish(entries, decision)
            return
        writes = [AcceptedWrite(one.commit, one.facts, destroyed) for one in decision.accepted]
        snapshots = self._snapshots_to_append() if self._backlog.due else no_snapshots
        batch = AppendBatch(decision.expected, writes, snapshots)
        done = self._publish if destroyed is None else self._scrub_and_publish
        self._in_flight.append(entries, batch, partial(done, entries, decision))

    def _snapshots_to_append(self) -> Callable[[], Sequence[Snapshot]]:
        """Snapshots that are due go along if they are many, or if others write too; else they are stored at rest."""
        if self._log.is_alone and not self._backlog.is_pressing:
            return no_snapshots
        return partial(due_snapshots.encoded, self._backlog.take())

    def _scrub_and_publish(self, entries: Sequence[QueueEntry], decision: BatchDecision) -> None:
        """What a write has destroyed is scrubbed before anything is published (ERASE-1)."""
        self._in_flight.start(entries, scrub.scrub_owed, lambda _: self._publish(entries, decision))

    def _publish(self, entries: Sequence[QueueEntry], decision: BatchDecision) -> None:
        """Everything that was decided on is durable: calls the subscribers, then the callers (COMMIT-10)."""
        self._moves = 0
        if self._failing:
            self._failing = ""
            LOG.info("writes_again", space=self._space)
        if decision.due:
            self._backlog.add(decision.due)
        if decision.accepted:
            self._durable(decision.accepted[-1].commit.version, decision.accepted)
        for entry, outcome in zip(entries, decision.outcomes, strict=True):
            entry.answer(outcome)

    # ------------------------------------------------------------ when a write fails

    async def _decide_again(self) -> None:
        """Another writer was first: what was decided is void, and is decided again on what it wrote."""
        self._moves += 1
        if self._moves > self._moves_max:
            self._moves = 0
            await self._give_up(StorageFailed())
        else:
            self._put_back(await self._forget())

    async def _give_up(self, failure: StorageFailed) -> None:
        """Tells all who wait that there is no verdict, and opens the log again (COMMIT-10).

        Callers in the queue too: theirs may be later commits of the same sessions. If it was the gathering that
        failed, the write before it may still end well.
        """
        refusal = errors.StorageFull if isinstance(failure, DiskFull) else errors.Unavailable
        self._note_failure(refusal.code)
        unanswered = await self._forget()
        # Callers learn of it one turn later; what comes until then may be later commits of the same sessions.
        self._refusal = refusal
        self._loop.call_soon(self._take_again)
        waiting = self._queue.clear()
        self._counts.queued -= len(waiting)
        for entry in [*unanswered, *waiting]:
            entry.fail(refusal())
        await self._open_again()

    def _note_failure(self, code: str) -> None:
        """Into the log, once until a write succeeds: clients repeat what was refused."""
        if self._failing != code:
            self._failing = code
            LOG.warning("write_failed", code=code, space=self._space)

    async def _still_owe(self, failure: Unscrubbed) -> None:
        """Tells the one whose answer waits for the scrub that there is none yet; all others go on (ERASE-1).

        Also if it has been written: what was decided since is decided again, on a log that was opened again.
        """
        self._scrub_failed = self._now()
        for entry in await self._in_flight.forget():
            entry.fail(failure.as_error())
        self._put_back(await self._forget())
        await self._open_again()

    async def _open_again(self) -> None:
        try:
            await self._log.ready()
        except StorageFailed:
            return  # the next caller that needs it tries again
        except Exception as error:
            _report("a space cannot be opened again", error)

    def _take_again(self) -> None:
        if not self._is_stopping:
            self._refusal = None

    def _put_back(self, entries: Sequence[QueueEntry]) -> None:
        self._queue.put_back(entries)
        self._counts.queued += len(entries)

    async def _forget(self) -> list[QueueEntry]:
        """Drops memory; returns the entries that were taken and not answered, in order."""
        unanswered = [*await self._in_flight.forget(), *self._taken]
        self._taken = ()
        self._decider.forget()
        self._backlog.clear()
        return unanswered


def _proposals(entries: Sequence[QueueEntry]) -> list[Proposal]:
    return [entry.proposal for entry in entries if entry.proposal is not None]


def _do(work: Callable[[SpaceLog], T], log: SpaceLog) -> WorkResult[T]:
    """In a worker: only a storage failure concerns more than the caller of the work."""
    done = answer(work, log)
    if isinstance(done.error, StorageFailed):
        raise done.error
    return done


def _report(message: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
