"""The list of deliberate bugs: read from tests/mutations/*.toml, and applied to one tree."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
LISTS: Final = ROOT / "tests" / "mutations"


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence that says what is broken; the exact text that is replaced; and the tests that have to notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


class DoesNotApply(Exception):
    """The text that a mutation replaces is not in its file exactly once."""


def load() -> list[Mutation]:
    """All of them, in the order of the files and of the lines in each."""
    found: list[Mutation] = []
    for file in sorted(LISTS.glob("*.toml")):
        found += msgspec.convert(tomllib.loads(file.read_text())["mutation"], list[Mutation])
    return found


def broken(mutation: Mutation, tree: Path) -> str:
    """The text of the file with the bug in it; `DoesNotApply` if it cannot be put there."""
    text = (tree / mutation.file).read_text()
    count = text.count(mutation.old)
    if count != 1:
        raise DoesNotApply(f"{mutation.file} has the text {count} times")
    return text.replace(mutation.old, mutation.new)


class Clock:
    """Gives each text of a file a time of its own: Python takes a compiled file by whole seconds and its size."""

    def __init__(self) -> None:
        self._seconds = 1_000_000_000

    def stamp(self, file: Path) -> None:
        self._seconds += 2
        os.utime(file, (self._seconds, self._seconds))


@contextmanager
def applied(mutation: Mutation, tree: Path, clock: Clock) -> Iterator[None]:
    """The tree with the bug, and without it afterwards."""
    file = tree / mutation.file
    good, bad = file.read_text(), broken(mutation, tree)
    file.write_text(bad)
    clock.stamp(file)
    try:
        yield
    finally:
        file.write_text(good)
        clock.stamp(file)
