"""Checks what a watcher was told: frames are contiguous slices of the log, each commit whole (SYNC-1, SYNC-3)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from violations import Violation

Facts = frozenset[Hashable]
"""The facts of one commit that a watcher is to be told of, by any names that are unique within the commit."""


@dataclass(frozen=True, slots=True)
class Frame:
    """From where to where it goes, and the facts of each commit that it tells, in its order."""

    since: int
    to: int
    commits: tuple[tuple[int, Facts], ...] = ()
    is_reset: bool = False
    """It begins anew: what was told before is void (RESUME-4)."""


def torn_stream(frames: Sequence[Frame], log: Mapping[int, Facts], *, since: int = 0) -> Iterator[Violation]:
    """Each frame continues the one before and tells its slice of the log: ordered, gapless, unrepeated, atomic.

    `log` has the facts of each version that concern this watcher; a version that is not in it does not.
    """
    at = since
    told: set[int] = set()
    for frame in frames:
        if frame.is_reset:
            told.clear()
        elif frame.since != at:
            kind = "gap" if frame.since > at else "repeated"
            yield Violation(kind, f"a frame from {frame.since} comes after {at}")
        if frame.to < frame.since:
            yield Violation("back", f"a frame goes from {frame.since} back to {frame.to}")
        yield from _slice(frame, log, told)
        at = frame.to


def _slice(frame: Frame, log: Mapping[int, Facts], told: set[int]) -> Iterator[Violation]:
    before = frame.since
    for version, facts in frame.commits:
        if version in told:
            yield Violation("repeated", f"{version} is told twice")
        elif version <= before:
            yield Violation("order", f"{version} is told after {before}")
        elif version > frame.to:
            yield Violation("ahead", f"{version} is told in a frame that reaches {frame.to}")
        elif facts != log.get(version, frozenset()):
            yield Violation("torn", f"{version} is told as {_shown(facts)}, not {_shown(log.get(version))}")
        told.add(version)
        before = max(before, version)
    if not frame.is_reset:
        yield from _missing(frame, log, told)


def _missing(frame: Frame, log: Mapping[int, Facts], told: set[int]) -> Iterator[Violation]:
    for version in range(frame.since + 1, frame.to + 1):
        if version in log and version not in told:
            yield Violation("gap", f"{version} is missing from a frame that goes from {frame.since} to {frame.to}")


def _shown(facts: Facts | None) -> list[str]:
    return sorted(map(str, facts or ()))
