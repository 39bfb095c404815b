"""Verdicts and answers that await the stream to reach their version (SYNC-2, SYNC-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Version
from stemmadb.protocol.wire.codec.fast_path import Own, verdict_on
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict, Verdict
from stemmadb.server.service.stream.frames import verdict_size


class PendingVerdicts:
    """In the order they came."""

    def __init__(self) -> None:
        self.decided: list[tuple[Version, Verdict | Own]] = []
        """Each with the version that the frame with it reaches at least; of own commits, what it is made of."""
        self._furthest = EMPTY_SPACE
        """The highest of those versions."""
        self.against = 0
        """How many are not of accepted commits."""
        self._accepted: set[Version] = set()
        """Versions of accepted commits whose verdicts wait here: one that is found twice is sent once."""

    def add(self, verdict: Verdict, at: Version) -> None:
        """One that is accepted is in the log, and may be found more than once: by the feed and by resuming."""
        if isinstance(verdict, AcceptedVerdict):
            if at in self._accepted:
                return
            self._accepted.add(at)
        else:
            self.against += 1
        self._furthest = max(self._furthest, at)
        self.decided.append((at, verdict))

    def add_own(self, own: Own) -> None:
        """As `add`, for an accepted commit of the session itself."""
        at = own[0].version
        if at not in self._accepted:
            self._accepted.add(at)
            self._furthest = max(self._furthest, at)
            self.decided.append((at, own))

    def forget_values(self) -> None:
        """Of rejections that wait, what was current when they were made: something was erased since (ERASE-1)."""
        self.decided = [
            (at, replace(verdict, current=()) if isinstance(verdict, RejectedVerdict) else verdict)
            for at, verdict in self.decided
        ]

    def take(self, to: Version) -> list[Verdict]:
        """Those of a frame that reaches this version."""
        decided = self.decided
        if self._furthest <= to:  # nearly always all of them
            self.decided, self.against = [], 0
            self._accepted.clear()
            return [_made(verdict) for _, verdict in decided]
        sent = [_made(verdict) for at, verdict in decided if at <= to]
        self.decided = [one for one in decided if one[0] > to]
        self.against = sum(isinstance(verdict, RejectedVerdict) for _, verdict in self.decided)
        self._accepted = {at for at in self._accepted if at > to}
        return sent

    def take_own(self, to: Version) -> list[Own] | None:
        """All that wait, if they are on own commits and a frame that reaches this version can have them."""
        if self._furthest > to or not self.decided:
            return None
        own: list[Own] = []
        for _, verdict in self.decided:
            if not isinstance(verdict, tuple):
                return None
            own.append(verdict)
        self.decided = []
        self._accepted.clear()
        return own

    @property
    def size(self) -> int:
        """What they take in memory, about."""
        return sum(verdict_size(_made(verdict)) for _, verdict in self.decided)


def _made(verdict: Verdict | Own) -> Verdict:
    return verdict_on(verdict) if isinstance(verdict, tuple) else verdict


class PendingAnswer:
    """An answer that waits, and the timer that ends the wait."""

    def __init__(self, version: Version, send: Callable[[], None], give_up: Callable[[], None]) -> None:
        self.version = version
        self.send = send
        self.give_up = give_up
        """Answers that it took too long."""
        self.timer: asyncio.TimerHandle | None = None


class PendingAnswers:
    """Each is sent once the stream has reached its version, or is given up."""

    def __init__(self, wait_ms: int) -> None:
        self.waiting: list[PendingAnswer] = []
        self._wait_seconds = wait_ms / 1_000

    def add(self, answer: PendingAnswer, is_stalled: Callable[[], bool]) -> None:
        """While the client does not read, the wait is its own and goes on."""
        self.waiting.append(answer)
        self._await(answer, is_stalled)

    def _await(self, answer: PendingAnswer, is_stalled: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        answer.timer = loop.call_later(self._wait_seconds, self._late, answer, is_stalled)

    def _late(self, answer: PendingAnswer, is_stalled: Callable[[], bool]) -> None:
        if is_stalled():
            self._await(answer, is_stalled)
        else:
            self.waiting.remove(answer)
            answer.give_up()

    def are_due(self, to: Version) -> bool:
        """Whether a frame to there lets one of them go."""
        return any(answer.version <= to for answer in self.waiting)

    def release(self, to: Version) -> None:
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            if answer.version > to:
                self.waiting.append(answer)
                continue
            if answer.timer is not None:
                answer.timer.cancel()
            answer.send()

    def give_up(self) -> None:
        """All of them, at once."""
        waiting = tuple(self.waiting)
        self.close()
        for answer in waiting:
            answer.give_up()

    def close(self) -> None:
        """The session is over: nobody waits any longer."""
        for answer in self.waiting:
            if answer.timer is not None:
                answer.timer.cancel()
        self.waiting.clear()
