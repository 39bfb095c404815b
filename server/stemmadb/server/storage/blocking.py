"""Appends that block: in workers where a log has some, at once where it has none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from stemmadb.server.storage.port import AppendBatch, Done, SpaceLog, StorageFailed, Worker


def run_append(workers: Worker | None, work: Callable[[], None], done: Done) -> None:
    """Runs the work of an append and calls `done` with how it ended."""
    if workers is None:
        done(_failure_of(work))
        return
    try:
        ended = asyncio.ensure_future(workers.run(work))
    except Exception as refusal:  # the workers are stopped
        asyncio.get_running_loop().call_soon(done, refusal)
        return
    ended.add_done_callback(partial(_append_ended, done))


def _append_ended(done: Done, ended: asyncio.Future[None]) -> None:
    done(StorageFailed("an append was cancelled") if ended.cancelled() else ended.exception())


def _failure_of(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as failure:
        return failure
    return None


def append(log: SpaceLog, batch: AppendBatch) -> None:
    """Appends to a log that was opened without workers; returns once the batch is durable, raises if it failed."""
    ended: list[BaseException | None] = []
    log.append(batch, ended.append)
    assert ended, "a log without workers has appended when `append` returns"
    if ended[0] is not None:
        raise ended[0]
