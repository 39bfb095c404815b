"""The process of one worker, started by the parent of `serve --workers N`; not a command for people.

What it serves comes on its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.server.commands import companions
from stemmadb.server.commands.shared import told
from stemmadb.server.serving import build, loops
from stemmadb.server.serving.app import Serving, serve
from stemmadb.server.serving.logs import logging_to
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.signals import stopping_on_signals
from stemmadb.server.serving.workers.worker import WorkerProcess, WorkerStart, end_with_parent

FAILED = 1


def main() -> int:
    """The exit code: 0 after it was asked to stop."""
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=WorkerStart)
    end_with_parent(start.lifeline)
    config = Config.model_validate(start.config)
    with logging_to(sys.stderr, form=config.log_format, level=config.log_level, worker=start.number):
        return loops.run(run(start, config))


async def run(start: WorkerStart, config: Config) -> int:
    stop = asyncio.Event()
    worker = WorkerProcess(start, config.data, stop)
    await worker.join_parent()

    def ready(serving: Serving) -> None:
        worker.tell({"ready": serving.companions})

    try:
        with told(config.data), stopping_on_signals(stop):
            await serve(
                config,
                make_service=partial(build.make_worker_service, worker),
                make_listener=build.make_listener,
                make_web=build.make_web,
                ready=ready,
                stop=stop,
                companions=companions.shares(start.companions),
                worker=worker,
            )
    except StemmaError as error:
        worker.tell({"failed": [error.code, error.message]})
        await asyncio.sleep(0.1)  # until it is written
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
