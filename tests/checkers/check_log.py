"""Checks a recovered log: nothing acknowledged is lost, nothing is there twice, nothing goes back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from violations import Violation


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A commit that its author was told to be accepted."""

    identity: Hashable
    version: int
    hash: bytes | None = None
    """Of the commit, where it was told."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit as it is in the log that was recovered."""

    version: int
    identity: Hashable
    time: int = 0
    hash: bytes | None = None


def lost(acknowledged: Iterable[Acknowledged], log: Sequence[Entry]) -> Iterator[Violation]:
    """What was acknowledged is in the log, at its version and with its hash (COMMIT-1)."""
    there = {entry.identity: entry for entry in log}
    for one in acknowledged:
        entry = there.get(one.identity)
        if entry is None:
            yield Violation("lost", f"{one.identity} was acknowledged at {one.version} and is not in the log")
        elif entry.version != one.version:
            yield Violation("moved", f"{one.identity} was acknowledged at {one.version} and is at {entry.version}")
        elif None not in (one.hash, entry.hash) and one.hash != entry.hash:
            yield Violation("altered", f"{one.identity} at {one.version} has another hash than was acknowledged")


def doubled(log: Sequence[Entry]) -> Iterator[Violation]:
    """One commit for each identity (COMMIT-5, COMMIT-11)."""
    first: dict[Hashable, int] = {}
    for entry in log:
        version = first.setdefault(entry.identity, entry.version)
        if version != entry.version:
            yield Violation("doubled", f"{entry.identity} is at {version} and at {entry.version}")


def disputed(acknowledged: Iterable[Acknowledged]) -> Iterator[Violation]:
    """One answer for each identity, and one identity for each version, whoever asked how often (COMMIT-5)."""
    versions: dict[Hashable, int] = {}
    owners: dict[int, Hashable] = {}
    for one in acknowledged:
        version = versions.setdefault(one.identity, one.version)
        owner = owners.setdefault(one.version, one.identity)
        if version != one.version:
            yield Violation("disputed", f"{one.identity} was acknowledged at {version} and at {one.version}")
        elif owner != one.identity:
            yield Violation("disputed", f"{one.version} was acknowledged to {owner} and to {one.identity}")


def gone_back(log: Sequence[Entry]) -> Iterator[Violation]:
    """Versions count up by one from the first, and times never go back (MODEL-1, COMMIT-7)."""
    for before, entry in pairwise(log):
        if entry.version != before.version + 1:
            yield Violation("version", f"{entry.version} follows {before.version}")
        if entry.time < before.time:
            yield Violation("time", f"version {entry.version} is of {entry.time}, the one before of {before.time}")


def fallen(seen: Iterable[int], *, who: Hashable) -> Iterator[Violation]:
    """The versions that one client was shown, one after the other, never fall."""
    highest: int | None = None
    for version in seen:
        if highest is not None and version < highest:
            yield Violation("fallen", f"{who} was shown {version} after {highest}")
        highest = version if highest is None else max(highest, version)


def strangers(log: Sequence[Entry], made: Iterable[Hashable]) -> Iterator[Violation]:
    """Everything in the log was made by somebody."""
    known = set(made)
    for entry in log:
        if entry.identity not in known:
            yield Violation("stranger", f"nobody made {entry.identity} at {entry.version}")


def resurrected(log: Sequence[Entry], refused: Iterable[Hashable]) -> Iterator[Violation]:
    """What its author was told to be refused is not in the log (COMMIT-1)."""
    there = {entry.identity: entry.version for entry in log}
    for identity in refused:
        if identity in there:
            yield Violation("resurrected", f"{identity} was refused and is at {there[identity]}")
