"""Work in a process of its own: a function with its end of a pipe."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Concatenate, ParamSpec, TypeAlias

from benchmarks.load.loop import STALL_SECONDS

P = ParamSpec("P")
Pipe: TypeAlias = "Connection[Any, Any]"
END_SECONDS = 10.0
_CONTEXT = multiprocessing.get_context("spawn")
"""A fresh interpreter: nothing that this process holds or has freed is in its memory."""


@contextmanager
def child(work: Callable[Concatenate[Pipe, P], None], *args: P.args, **kwargs: P.kwargs) -> Iterator[Pipe]:
    """Runs `work(pipe, ...)`; it should end when it is told something, or when the pipe is closed."""
    here, there = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(there, *args), kwargs=kwargs, daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join(END_SECONDS)
        if process.exitcode is None:
            process.terminate()
            process.join()


def told(pipe: Pipe, *, patience: float = STALL_SECONDS) -> Any:
    """What the child says next."""
    if not pipe.poll(patience):
        raise TimeoutError(f"the child said nothing for {patience} s")
    return pipe.recv()
