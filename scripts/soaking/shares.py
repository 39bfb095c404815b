"""Who is next: kinds share the time, not the number of seeds, so that a slow one starves nobody."""

from __future__ import annotations

from collections.abc import Iterable


class _Share:
    """What one kind had of the time so far."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.ended = 0
        self.begun: list[float] = []
        """When each seed that is under way began."""

    @property
    def mean(self) -> float:
        return self.spent / self.ended if self.ended else 0.0

    def charged(self, now: float) -> float:
        """What is under way counts as what it will take, or took already if that is more."""
        return self.spent + sum(max(now - begun, self.mean) for begun in self.begun)


class Shares:
    """Gives the next turn to the kind that had the least time."""

    def __init__(self, names: Iterable[str]) -> None:
        self._shares = {name: _Share() for name in names}
        self._open = set(self._shares)

    def next(self, now: float, *, ends: float) -> str | None:
        """Nobody, if there is no kind left that is likely to be done by the end."""
        fitting = [name for name, share in self._shares.items() if name in self._open and now + share.mean < ends]
        return min(fitting, key=lambda name: self._order(name, now), default=None)

    def _order(self, name: str, now: float) -> tuple[float, int]:
        share = self._shares[name]
        return share.charged(now), len(share.begun)

    def begin(self, name: str, now: float) -> None:
        self._shares[name].begun.append(now)

    def end(self, name: str, begun: float, now: float) -> None:
        share = self._shares[name]
        share.begun.remove(begun)
        share.spent += now - begun
        share.ended += 1

    def stop(self, name: str) -> None:
        """The kind gets no more turns."""
        self._open.discard(name)

    @property
    def under_way(self) -> int:
        return sum(len(share.begun) for share in self._shares.values())
