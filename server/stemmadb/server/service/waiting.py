"""What waits in an outbox for the stream to reach a version: verdicts, and answers with state (SYNC-2, SYNC-7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stemmadb.protocol.model.ids import Version
from stemmadb.protocol.wire.messages.commit import Accepted, Verdict
from stemmadb.server.service.frames import verdict_size


class _Decided(NamedTuple):
    """A verdict, and the version that the frame with it reaches at least."""

    at: Version
    verdict: Verdict


class Verdicts:
    """In the order they came."""

    def __init__(self) -> None:
        self._decided: list[_Decided] = []
        self._accepted: set[Version] = set()
        """Own commits whose verdicts wait here: one that is found twice is told once."""

    def __len__(self) -> int:
        return len(self._decided)

    def add(self, verdict: Verdict, at: Version) -> None:
        """One that is accepted is in the log, and may be found more than once: by the feed and by resuming."""
        if isinstance(verdict, Accepted):
            if at in self._accepted:
                return
            self._accepted.add(at)
        self._decided.append(_Decided(at, verdict))

    def take(self, to: Version) -> list[Verdict]:
        """Those of a frame that reaches this version."""
        told = [one for one in self._decided if one.at <= to]
        if len(told) == len(self._decided):
            self._decided.clear()
            self._accepted.clear()
        else:
            self._decided = [one for one in self._decided if one.at > to]
            self._accepted.difference_update([one.at for one in told])
        return [one.verdict for one in told]

    def are_few(self, count_max: int) -> bool:
        """Whether they are small without a look: few, and all of commits that were accepted."""
        return len(self._decided) <= count_max and all(isinstance(one.verdict, Accepted) for one in self._decided)

    @property
    def size(self) -> int:
        """What they take in memory, about."""
        return sum(verdict_size(one.verdict) for one in self._decided)


class Answers:
    """Each is sent once the stream has reached its version."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Version, Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, version: Version, send: Callable[[], None]) -> None:
        self._waiting.append((version, send))

    def are_due(self, to: Version) -> bool:
        """Whether a frame to there lets one of them go."""
        return any(version <= to for version, _ in self._waiting)

    def release(self, to: Version) -> None:
        waiting, self._waiting = self._waiting, []
        for version, send in waiting:
            if version <= to:
                send()
            else:
                self._waiting.append((version, send))
