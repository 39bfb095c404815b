"""The appender of a node: collects ready batches of all its spaces, and appends them with one statement.

    loop     append(space 1) append(space 2) append(space 1 again: never, one at a time for a space)
    thread 1 [1, 2] -> one statement -> done, done       thread 2 [3] -> one statement -> done

While both threads are busy, batches wait and are collected: the busier the node, the more commits share a statement.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import psycopg

from stemmadb.server.storage.port import AppendBatch, Done, LogMoved, StorageFailed
from stemmadb.server.storage.postgres import append_statement, long_append
from stemmadb.server.storage.postgres.append_statement import Move
from stemmadb.server.storage.postgres.claim_rules import Deposed, RowHeld, why_not_moved
from stemmadb.server.storage.postgres.claims import Claimed
from stemmadb.server.storage.postgres.connection import PgConnection, UnknownOutcome, is_certain, translated
from stemmadb.server.storage.postgres.database_counts import DatabaseCounts
from stemmadb.server.storage.postgres.numbers import OwnedNumbers
from stemmadb.server.storage.postgres.pool import ConnectionPool
from stemmadb.server.storage.postgres.rows import AppendRows, SpaceRows

APPENDS_IN_FLIGHT_MAX: Final = 2
APPEND_COMMITS_MAX: Final = 256
APPEND_BYTES_MAX: Final = 4 << 20
BUSY_SECONDS: Final = (0.005, 0.050)
"""How long a space waits whose row somebody else holds, by chance between these."""
BUSY_SECONDS_MAX: Final = 2.0

_LOOK_UP: Final = "SELECT owner, term, version, hash FROM tip WHERE space = %s::int"


class WaitingBatch:
    """A batch of one space that is to be appended, and what happened to it."""

    __slots__ = ("batch", "busy_since", "claimed", "done", "failure", "loop", "numbers", "ready_at", "size")

    def __init__(self, numbers: OwnedNumbers, claimed: Claimed, batch: AppendBatch, done: Done) -> None:
        self.numbers = numbers
        self.claimed = claimed
        self.batch = batch
        self.done = done
        self.failure: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.size = sum([len(fact.body or b"") for entry in batch.writes for fact in entry.facts])
        self.busy_since: float | None = None
        self.ready_at = 0.0

    @property
    def is_plain(self) -> bool:
        return (
            long_append.is_plain(self.batch)
            and self.size <= long_append.RUN_BYTES_MAX
            and self.batch.expected == self.numbers.version
            and self.batch.writes[0].commit.version == self.batch.expected + 1
        )


class NodeAppender:
    """Threads that append, each with a connection of its own while it does."""

    def __init__(self, pool: ConnectionPool, counts: DatabaseCounts) -> None:
        self._pool = pool
        self._counts = counts
        self._waiting: deque[WaitingBatch] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_closed = False

    def append(self, waiting: WaitingBatch) -> None:
        """Returns at once; `done` is called on the running loop."""
        waiting.loop = asyncio.get_running_loop()
        with self._changed:
            if self._is_closed:
                waiting.loop.call_soon(waiting.done, StorageFailed("the storage is closed"))
                return
            self._waiting.append(waiting)
            if not self._idle and len(self._threads) < APPENDS_IN_FLIGHT_MAX:
                thread = threading.Thread(target=self._run, name="stemmadb-append", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def append_now(self, waiting: WaitingBatch) -> None:
        """Blocks, and then calls `done`."""
        left = [waiting]
        while left:
            time.sleep(max(0.0, waiting.ready_at - time.monotonic()))
            left = self._written(left)
        waiting.done(waiting.failure)

    def close(self) -> None:
        """What waits fails; what is under way ends."""
        with self._changed:
            self._is_closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for one in left:
            one.failure = StorageFailed("the storage is closed")
        _report(left)
        for thread in self._threads:
            thread.join()

    # -- in the threads

    def _run(self) -> None:
        while group := self._next():
            busy = self._written(group)
            _report([one for one in group if one not in busy])
            with self._changed:
                self._waiting.extend(busy)

    def _next(self) -> list[WaitingBatch]:
        """The batches for the next statement; none when the appender is closed."""
        with self._changed:
            while not self._is_closed:
                group = self._take()
                if group:
                    return group
                soonest = min((one.ready_at for one in self._waiting), default=None)
                self._idle += 1
                self._changed.wait(None if soonest is None else max(0.0, soonest - time.monotonic()))
                self._idle -= 1
        return []

    def _take(self) -> list[WaitingBatch]:
        """As many plain batches as fit together, or one that has to go alone."""
        now, group, left = time.monotonic(), list[WaitingBatch](), deque[WaitingBatch]()
        commits = size = 0
        for one in self._waiting:
            fits = not group or (commits < APPEND_COMMITS_MAX and size + one.size <= APPEND_BYTES_MAX)
            is_alone = bool(group) and not (group[0].is_plain and one.is_plain)
            if one.ready_at > now or not fits or is_alone:
                left.append(one)
                continue
            group.append(one)
            commits += len(one.batch.writes)
            size += one.size
        self._waiting = left
        return group

    def _written(self, group: list[WaitingBatch]) -> list[WaitingBatch]:
        """Appends them; gives those that somebody else held up, which are to be tried again."""
        try:
            with self._pool.connection() as connection:
                if group[0].is_plain:
                    self._write_plain(connection, group)
                else:
                    self._guarded(connection, group, lambda: self._write_long(connection, group[0]))
        except Exception as failure:  # no connection: nothing was written
            for one in group:
                one.failure = one.failure or failure
        busy = [one for one in group if isinstance(one.failure, RowHeld)]
        self._counts.add("busy", len(busy))
        self._counts.add("deposed", sum(isinstance(one.failure, Deposed) for one in group))
        return [one for one in busy if _is_to_wait(one)]

    def _write_long(self, connection: PgConnection, one: WaitingBatch) -> None:
        with connection.transaction():
            self._counts.add("appends")
            long_append.write(connection, one.numbers, one.claimed, one.batch)
        self._counts.add("append_commits", len(one.batch.writes))
        one.numbers.version = one.batch.expected + len(one.batch.writes)

    def _write_plain(self, connection: PgConnection, group: Sequence[WaitingBatch]) -> None:
        made: list[tuple[WaitingBatch, SpaceRows, Move]] = []
        rows = AppendRows()
        for one in group:

            def make(one: WaitingBatch = one) -> None:
                its = SpaceRows(one.numbers, connection)
                its.add(one.batch.writes)
                made.append((one, its, long_append.move_of(one.numbers, one.claimed, one.batch.writes)))

            self._guarded(connection, [one], make)
        for _, its, _ in made:
            rows.extend(its.rows)
        if not made:
            return
        certain = self._guarded(connection, [one for one, _, _ in made], lambda: self._append(connection, made, rows))
        if certain and len(made) > 1:  # one bad batch harms nobody else
            for one, _, _ in made:
                self._write_plain(connection, [one])

    def _append(
        self, connection: PgConnection, made: Sequence[tuple[WaitingBatch, SpaceRows, Move]], rows: AppendRows
    ) -> None:
        connection.warnings.clear()
        self._counts.add("appends")
        done = append_statement.append(connection, [move for _, _, move in made], rows)
        connection.check_warnings()
        for one, its, move in made:
            space = move.space
            if space in done.moved:
                its.learn(*(done.renumbered.get((kind, space), {}) for kind in ("e", "s", "p")))
                one.numbers.version = move.version
                self._counts.add("append_commits", len(one.batch.writes))
                one.failure = None
            else:
                found = connection.rows(_LOOK_UP, (space,))
                one.failure = why_not_moved(move, *found[0]) if found else Deposed("the space is gone")

    def _guarded(self, connection: PgConnection, group: Sequence[WaitingBatch], work: Callable[[], None]) -> bool:
        """Does the work, and notes a failure for all of the group; whether it certainly wrote nothing."""
        try:
            work()
        except psycopg.Error as error:
            certain = is_certain(error, connection)
            if not certain:
                connection.close()
                self._counts.add("unknown", len(group))
            for one in group:
                one.failure = translated(error)
            return certain
        except LogMoved as moved:
            for one in group:
                one.failure = moved
        except Exception as failure:
            connection.close()
            self._counts.add("unknown", len(group) if isinstance(failure, UnknownOutcome) else 0)
            for one in group:
                one.failure = failure
        return False


def _is_to_wait(one: WaitingBatch) -> bool:
    now = time.monotonic()
    if one.busy_since is None:
        one.busy_since = now
    if now - one.busy_since > BUSY_SECONDS_MAX:
        return False
    one.failure = None
    one.ready_at = now + random.uniform(*BUSY_SECONDS)  # noqa: S311  # no secret
    return True


def _report(group: Sequence[WaitingBatch]) -> None:
    """Calls `done` of each on its loop, with one message for all that share it."""
    loops: dict[asyncio.AbstractEventLoop, list[WaitingBatch]] = {}
    for one in group:
        assert one.loop is not None, "it came from a loop"
        loops.setdefault(one.loop, []).append(one)
    for loop, its in loops.items():
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(_call_done, its)


def _call_done(group: Sequence[WaitingBatch]) -> None:
    for one in group:
        one.done(one.failure)
