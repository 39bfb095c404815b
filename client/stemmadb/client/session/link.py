"""The link to the server: connects, runs the connection pump, and reconnects with a backoff (RESUME-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from stemmadb.client.dialing.backoff import Backoff
from stemmadb.client.session.connection_pump import ConnectionPump
from stemmadb.client.session.session import ClientSession
from stemmadb.protocol.errors import GoingAway, Internal, StemmaError, Unauthenticated, Unreachable, Unready
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Version
from stemmadb.protocol.wire.channel import ChannelClosed, Dial

LinkState: TypeAlias = Literal["connecting", "open", "offline", "refused", "closed"]

COME_BACK: Final = frozenset({"taken_over"})
"""Ends after which a new connection is made at once, beside those that say so themselves (`Unready`)."""


class ServerLink:
    """Keeps one session connected. `run` is its only task that lives long; everything else ends with a connection."""

    def __init__(self, session: ClientSession, dial: Dial, *, url: str, random: Callable[[], float]) -> None:
        self.state: LinkState = "connecting"
        self.server_head = EMPTY_SPACE
        """The highest version of the space that the server has announced."""
        self._session = session
        self._dial = dial
        self.url = url
        settings = session.settings
        self._backoff = Backoff(random, first_s=settings.first_pause_seconds, most_s=settings.most_pause_seconds)
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._pump: ConnectionPump | None = None
        self._is_late = False
        session.reconnect = self.drop
        session.subscriptions.give_up = self.drop
        session.requester.wrote = self.heard_of

    # ------------------------------------------------------------ for the app

    def nudge(self) -> None:
        """Tries at once, say when the machine has woken up; a connection that is there must prove itself alive."""
        self._backoff.reset()
        self._wake.set()
        if self._pump is not None:
            self._pump.check_life()

    async def settled(self) -> None:
        """Returns once it is open, the first attempt has failed, or it is over."""
        while self.state == "connecting":
            self._changed.clear()
            await self._changed.wait()

    async def when_open(self) -> None:
        """Returns once it is open; `GoingAway` if the client is closed."""
        while self.state != "open":
            if self.state == "closed":
                raise self.why_not_open()
            self._changed.clear()
            await self._changed.wait()

    def why_not_open(self) -> StemmaError:
        if self.state == "closed":
            return GoingAway("The client was closed.")
        return self._session.why_offline or Unreachable(url=self.url, why="there was no answer yet")

    def end(self) -> None:
        """It is over: `run` was cancelled; callers that wait for a connection get `GoingAway`."""
        self._enter("closed")

    def drop(self) -> None:
        """Gives the connection up, so that another one is made."""
        if self._pump is not None:
            self._pump.drop()

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            why, pause_ms = await self._connect_and_run()
            self._session.lost(why)
            is_welcome = self._may_be_late(why) or isinstance(why, Unready) or why.code in COME_BACK
            if not is_welcome:
                self._session.refuse_requests(why)
            self._enter("offline" if is_welcome else "refused")
            await self._pause(pause_ms)

    def _may_be_late(self, why: StemmaError) -> bool:
        """A challenge expires on a slow line, or when a clock is set: only one after the other is a refusal."""
        was_late, self._is_late = self._is_late, isinstance(why, Unauthenticated)
        return self._is_late and not was_late

    async def _connect_and_run(self) -> tuple[StemmaError, int | None]:
        """One connection, from the attempt to its end: why it ended, and how long the server said to wait."""
        try:
            async with asyncio.timeout(self._session.settings.open_seconds):
                channel = await self._dial(self._session.space)
        except TimeoutError:
            return Unreachable(url=self.url, why="no answer"), None
        except StemmaError as error:
            return error, None
        except Exception as error:
            return self._internal_error(error), None
        self._pump = ConnectionPump(self._session, channel, self)
        try:
            closed = await self._pump.run()
            return closed.error, closed.retry_after_ms
        except ChannelClosed as why:
            return Unreachable(url=self.url, why=f"the connection was lost ({why})"), None
        except Exception as error:
            return self._internal_error(error), None
        finally:
            self._pump = None
            await channel.close()

    @staticmethod
    def _internal_error(error: Exception) -> StemmaError:
        """An internal error ends the connection, and is not passed over in silence."""
        context = {"message": "internal error of the client", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        return Internal(f"Internal error of the client ({error!r}). Please report it.", reference="")

    # ------------------------------------------------------------ what the connection pump reports

    def opened(self) -> None:
        """The first frame has come."""
        if self.state != "open":
            self._backoff.reset()
            self._enter("open")

    def heard_of(self, version: Version | None) -> None:
        """The space is at least there."""
        self.server_head = max(self.server_head, version or EMPTY_SPACE)

    def _enter(self, state: LinkState) -> None:
        self.state = state
        self._changed.set()

    async def _pause(self, retry_after_ms: int | None) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(self._backoff.next(retry_after_ms)):
                await self._wake.wait()
        except TimeoutError:
            pass
