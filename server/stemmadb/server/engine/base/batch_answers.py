"""Answers of work that runs in another thread for many callers: a result, or the exception of that one alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
A = TypeVar("A")


class WorkResult(Generic[T]):
    """An exception travels as a result: it must not reach other callers that wait for the same thread."""

    __slots__ = ("_result", "error")

    def __init__(self, result: T | None, error: Exception | None) -> None:
        self._result = result
        self.error = error

    def given(self) -> T:
        """The result; raises here what was raised there."""
        if self.error is not None:
            raise self.error
        return self._result  # type: ignore[return-value]  # without an error there is a result


def answer(work: Callable[[A], T], argument: A) -> WorkResult[T]:
    """What the work says, whatever that is. A StopIteration, raised again in a coroutine, would be its end."""
    try:
        return WorkResult(work(argument), None)
    except StopIteration as stop:
        return WorkResult(None, RuntimeError(f"work raised {stop!r}"))
    except Exception as error:
        return WorkResult(None, error)
