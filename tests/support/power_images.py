"""What is on the disk after the power failed: what was synced, and of the rest any part, whole or torn.

The rules, which are those of a disk that may do the worst it is allowed to:

- A sync makes durable everything written to that file before it. Of later writes each is there, or not, or some of
  its 512-byte sectors are; of later truncations each is there or not. Files do not wait for each other.
- After a sync that failed the writes before it are there or not, for good, although they can be read until then: a
  later sync does not bring them back.
- A file that was created, and one that was deleted, is there or not, until the directory is synced: by a delete that
  asks for it, or by the first sync of a new journal, as SQLite's file system for Unix does it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from faulty_vfs import Created, Deleted, Event, Marked, Synced, Truncated, Written

SECTOR = 512

Change = Written | Truncated


class _File:
    """A file: what is durable of it, and what was done to it since."""

    def __init__(self, *, is_journal: bool, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.pending: list[Change] = []
        self.is_new_journal = is_journal


class Disk:
    """A disk that takes events one by one, and can be looked at as it would be found after a power failure."""

    def __init__(self, dice: random.Random, files: Mapping[str, bytes] | None = None) -> None:
        self._dice = dice
        found = (files or {}).items()
        self._now = {name: _File(is_journal=False, content=content) for name, content in found}
        self._durable = dict(self._now)
        self.marked = 0

    def take(self, event: Event) -> None:
        match event:
            case Created(file=name, is_journal=is_journal):
                self._now[name] = _File(is_journal=is_journal)
            case Written(file=name) | Truncated(file=name):
                self._now[name].pending.append(event)
            case Synced(file=name, failed=False):
                self._sync(self._now[name])
            case Synced(file=name, failed=True):
                file = self._now[name]
                file.durable, file.pending = self._torn(file), []
            case Deleted(file=name, is_durable=is_durable):
                self._now.pop(name, None)
                if is_durable:
                    self._sync_directory()
            case Marked(version=version):
                self.marked = version

    def _sync(self, file: _File) -> None:
        for change in file.pending:
            _apply(file.durable, change)
        file.pending.clear()
        if file.is_new_journal:
            file.is_new_journal = False
            self._sync_directory()

    def _sync_directory(self) -> None:
        self._durable = dict(self._now)

    def sync_all(self) -> None:
        """What an orderly end does."""
        for file in self._now.values():
            self._sync(file)
        self._sync_directory()

    def after_power_loss(self) -> dict[str, bytes]:
        """The files that are found, by name: one of the ways in which it can end."""
        found: dict[str, bytes] = {}
        for name in self._durable.keys() | self._now.keys():
            file = self._dice.choice([self._durable.get(name), self._now.get(name)])
            if file is not None:
                found[name] = bytes(self._torn(file))
        return found

    def _torn(self, file: _File) -> bytearray:
        """One way in which what was not synced may be there: little, some or nearly all of it."""
        content = bytearray(file.durable)
        kept, torn = self._dice.choice([0.0, 0.2, 0.5, 0.8, 1.0]), self._dice.choice([0.0, 0.2, 1.0])
        for change in file.pending:
            if isinstance(change, Written) and self._dice.random() < torn:
                for sector in _sectors(change):
                    if self._dice.random() < kept:
                        _apply(content, sector)
            elif self._dice.random() < kept:
                _apply(content, change)
        return content


def _apply(content: bytearray, change: Change) -> None:
    end = change.size if isinstance(change, Truncated) else change.offset + len(change.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if isinstance(change, Truncated):
        del content[change.size :]
    else:
        content[change.offset : end] = change.data


def _sectors(write: Written) -> Iterator[Written]:
    """The parts of a write that lie in one sector each."""
    at = 0
    while at < len(write.data):
        size = SECTOR - (write.offset + at) % SECTOR
        yield Written(write.file, write.offset + at, write.data[at : at + size])
        at += size


def images(
    events: Sequence[Event], points: Sequence[int], seed: int, files: Mapping[str, bytes] | None = None
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Power failures after so many events each: what was last marked, and the files that are found.

    `files` were there, and durable, before the first event.
    """
    disk, at = Disk(random.Random(seed), files), 0
    for point in sorted(points):
        for event in events[at:point]:
            disk.take(event)
        at = point
        yield disk.marked, disk.after_power_loss()


def anywhere(events: Sequence[Event], count: int, seed: int) -> list[int]:
    """That many points at random."""
    dice = random.Random(seed)
    return [dice.randint(0, len(events)) for _ in range(count)]


def after_marks(events: Sequence[Event]) -> list[int]:
    """The points right after something was acknowledged: what is lost then was promised."""
    return [index + 1 for index, event in enumerate(events) if isinstance(event, Marked)]


def put(directory: Path, files: Mapping[str, bytes]) -> None:
    """The directory of a space as it was found, and nothing else in it."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in directory.iterdir():
        file.unlink()
    for name, content in files.items():
        (directory / name).write_bytes(content)
