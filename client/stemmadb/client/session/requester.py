"""Sends a request and waits for the answer, however often the connection is lost (`requester.Requester`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from stemmadb.client.session.request_queue import OutgoingRequests
from stemmadb.protocol.errors import RateLimited, StemmaError, TimedOut, UnsupportedProtocol
from stemmadb.protocol.model.values.ids import RANDOM_ID_BYTES, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.messages.base import Part, Request, WriteRequest

P = TypeVar("P", bound=Part)


class SessionRequester:
    """Sends requests through a session's queue. `why_silent` says why there is no connection, if there is none."""

    def __init__(
        self,
        requests: OutgoingRequests,
        *,
        random: Callable[[int], bytes],
        ask_seconds: float,
        why_silent: Callable[[], StemmaError | None],
    ) -> None:
        self.limits: Limits = DEFAULTS
        self.features: frozenset[str] | None = None
        """What the server announced; None before it did."""
        self.wrote: Callable[[Version | None], None] = _ignore
        """Called with the version that a write took: later reads must not be older."""
        self.random = random
        self._requests = requests
        self._ask_seconds = ask_seconds
        self._why_silent = why_silent

    def check_feature(self, feature: str) -> None:
        """`UnsupportedProtocol` if the server is known to be too old for it."""
        if self.features is not None and feature not in self.features:
            raise UnsupportedProtocol(
                f"The server is too old for this: it lacks {feature!r}. Upgrade the server.",
                wanted=feature,
                spoken=", ".join(sorted(self.features)) or "no features",
            )

    def has_feature(self, feature: str) -> bool:
        """Whether the server announced it."""
        return feature in (self.features or ())

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
        queued = self._requests.ask(kind, fields, lambda result: _resolve(future, result))
        try:
            result = await future
        finally:
            self._requests.give_up(queued)
        if isinstance(result, StemmaError):
            raise result.with_traceback(None)  # the same error may go to many callers
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
    """No callback is set."""


def _resolve(future: asyncio.Future[Part | StemmaError], result: Part | StemmaError) -> None:
    """The caller may have been cancelled just now, before it could give up the request."""
    if not future.done():
        future.set_result(result)
