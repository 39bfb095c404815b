"""Asking the server and waiting for the answer, however often the connection is lost meanwhile (`asking.Asker`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from stemmadb.client.session.questions import Questions
from stemmadb.protocol.errors import RateLimited, StemmaError, TimedOut
from stemmadb.protocol.model.ids import RANDOM_ID_BYTES, Version
from stemmadb.protocol.model.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.messages.base import Part, Request, WriteRequest

P = TypeVar("P", bound=Part)


class SessionAsker:
    """Asks through the questions of a session. `why_silent` says why there is no connection, if there is none."""

    def __init__(
        self,
        questions: Questions,
        *,
        random: Callable[[int], bytes],
        ask_seconds: float,
        why_silent: Callable[[], StemmaError | None],
    ) -> None:
        self.limits: Limits = DEFAULTS
        self.wrote: Callable[[Version | None], None] = _ignore
        """Told the version that a write took: what is read next must not be older."""
        self.random = random
        self._questions = questions
        self._ask_seconds = ask_seconds
        self._why_silent = why_silent

    async def ask(self, kind: type[Request], answer: type[P], *, timeout: float | None = None, **fields: Any) -> P:
        """The answer; raises the typed error that was answered, `Unreachable` or `TimedOut`."""
        seconds = self._ask_seconds if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        return await self._once(kind, answer, fields)
                    except RateLimited as limited:
                        await asyncio.sleep(limited.facts.get("retry_after_ms", 0) / 1_000)
        except TimeoutError:
            raise self._why_silent() or TimedOut(timeout_ms=round(seconds * 1_000)) from None

    async def _once(self, kind: type[Request], answer: type[P], fields: dict[str, Any]) -> P:
        future: asyncio.Future[Part | StemmaError] = asyncio.get_running_loop().create_future()
        question = self._questions.ask(kind, fields, lambda result: _tell(future, result))
        try:
            result = await future
        finally:
            self._questions.give_up(question)
        if isinstance(result, StemmaError):
            raise result.with_traceback(None)  # the same one may be told to many
        assert isinstance(result, answer), f"{kind.__name__} is answered by {type(result).__name__}"
        return result

    async def write(
        self, kind: type[WriteRequest], answer: type[P], *, timeout: float | None = None, **fields: Any
    ) -> P:
        """The same for a write: its operation id and nonce are made once, so that it is done once (COMMIT-11)."""
        once = {"operation": self.random(RANDOM_ID_BYTES), "nonce": self.random(RANDOM_ID_BYTES)}
        result = await self.ask(kind, answer, timeout=timeout, **once, **fields)
        self.wrote(getattr(result, "version", None))
        return result


def _ignore(_version: Version | None) -> None:
    """Nobody wants to know."""


def _tell(future: asyncio.Future[Part | StemmaError], result: Part | StemmaError) -> None:
    """Who asked may have been cancelled in this very moment, and has not yet said that nobody waits."""
    if not future.done():
        future.set_result(result)
