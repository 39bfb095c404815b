"""The link: connects, carries messages both ways, finds dead connections, and tries again (RESUME-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from stemmadb.client.dialing.backoff import Backoff
from stemmadb.client.dialing.channel import ChannelClosed, Dial
from stemmadb.client.session.carrier import Carrier
from stemmadb.client.session.session import Session
from stemmadb.protocol.errors import GoingAway, Internal, StemmaError, Unauthenticated, Unreachable, Unready
from stemmadb.protocol.model.ids import EMPTY_SPACE, Version

LinkState: TypeAlias = Literal["connecting", "open", "offline", "refused", "closed"]

COME_BACK: Final = frozenset({"taken_over"})
"""Ends after which a new connection is made at once, beside those that say so themselves (`Unready`)."""


class Link:
    """Keeps one session connected. `run` is its only task that lives long; everything else ends with a connection."""

    def __init__(self, session: Session, dial: Dial, *, url: str, random: Callable[[], float]) -> None:
        self.state: LinkState = "connecting"
        self.server_head = EMPTY_SPACE
        """The highest version of the space that the server has told of."""
        self.attempts = 0
        self._session = session
        self._dial = dial
        self.url = url
        settings = session.settings
        self._backoff = Backoff(random, first_s=settings.first_pause_seconds, most_s=settings.most_pause_seconds)
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._carrier: Carrier | None = None
        self._is_late = False
        session.reconnect = self.drop
        session.subscriptions.give_up = self.drop
        session.asker.wrote = self.heard_of

    # ------------------------------------------------------------ for the app

    def nudge(self) -> None:
        """Tries at once, say when the machine has woken up; a connection that is there must prove itself alive."""
        self._backoff.reset()
        self._wake.set()
        if self._carrier is not None:
            self._carrier.check_life()

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
        """It is over: `run` was cancelled, and whoever waits for a connection is told."""
        self._enter("closed")

    def drop(self) -> None:
        """Gives the connection up, so that another one is made."""
        if self._carrier is not None:
            self._carrier.drop()

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            why, pause_ms = await self._connect_and_carry()
            self._session.lost(why)
            is_welcome = self._may_be_late(why) or isinstance(why, Unready) or why.code in COME_BACK
            if not is_welcome:
                self._session.refuse_questions(why)
            self._enter("offline" if is_welcome else "refused")
            await self._pause(pause_ms)

    def _may_be_late(self, why: StemmaError) -> bool:
        """A challenge expires on a slow line, or when a clock is set: only one after the other is a refusal."""
        was_late, self._is_late = self._is_late, isinstance(why, Unauthenticated)
        return self._is_late and not was_late

    async def _connect_and_carry(self) -> tuple[StemmaError, int | None]:
        """One connection, from the attempt to its end: why it ended, and how long the server said to wait."""
        self.attempts += 1
        try:
            async with asyncio.timeout(self._session.settings.open_seconds):
                channel = await self._dial(self._session.space)
        except TimeoutError:
            return Unreachable(url=self.url, why="no answer"), None
        except StemmaError as error:
            return error, None
        except Exception as mistake:
            return self._mistaken(mistake), None
        self._carrier = Carrier(self._session, channel, self)
        try:
            closed = await self._carrier.carry()
            return closed.error, closed.retry_after_ms
        except ChannelClosed as why:
            return Unreachable(url=self.url, why=f"the connection was lost ({why})"), None
        except Exception as mistake:
            return self._mistaken(mistake), None
        finally:
            self._carrier = None
            await channel.close()

    @staticmethod
    def _mistaken(mistake: Exception) -> StemmaError:
        """A mistake of ours ends the connection, and is not passed over in silence."""
        context = {"message": "the client made a mistake", "exception": mistake}
        asyncio.get_running_loop().call_exception_handler(context)
        return Internal(f"The client made a mistake ({mistake!r}). Please report it.", reference="")

    # ------------------------------------------------------------ what the carrier says

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
