"""Who waits where: what a person needs to know of a run that is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

TASKS_MAX: Final = 50
"""Tasks that a message names."""
FRAMES_MAX: Final = 4
"""Calls that it names of each."""


class Deadlock(RuntimeError):
    """Nothing will ever happen again, or nothing that ends the run."""


def whereabouts(loop: asyncio.AbstractEventLoop) -> str:
    """A line for each task that is not done: its name, and where it stands."""
    tasks = sorted((task for task in asyncio.all_tasks(loop) if not task.done()), key=lambda task: task.get_name())
    lines = [f"- {task.get_name()} at {_place(task)}" for task in tasks[:TASKS_MAX]]
    if len(tasks) > TASKS_MAX:
        lines.append(f"- and {len(tasks) - TASKS_MAX} more")
    return "\n".join(lines) or "- nobody"


def _place(task: asyncio.Task[object]) -> str:
    """Who awaits whom, down to the last that is not the library's; the nearest come last."""
    frames = [frame for frame in _awaited(task.get_coro()) if not _is_asyncio(frame)]
    places = [f"{Path(one.f_code.co_filename).name}:{one.f_lineno} in {one.f_code.co_name}" for one in frames]
    return " > ".join(places[-FRAMES_MAX:]) or "its beginning"


def _awaited(waiting: object) -> Iterator[FrameType]:
    """The frames of a coroutine and of what it awaits; a generator or an iterator of them as well."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if isinstance(frame, FrameType):
            yield frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _is_asyncio(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "asyncio"
