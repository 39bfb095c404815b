"""The kept inputs: a file for each, named by its hash; those that raise coverage, and those that once found a bug."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from blake3 import blake3

from fuzzing.vectors import TESTS

CORPUS: Final = TESTS / "fuzzing" / "corpus"
FOUND: Final = TESTS / "fuzzing" / "found"
NAME_LETTERS: Final = 16

Arc = tuple[str, int, int]
"""A step from one line to another inside a file."""


def name_of(data: bytes) -> str:
    return blake3(data).hexdigest()[:NAME_LETTERS]


def read(directory: Path, target: str) -> list[bytes]:
    """The inputs of a target, in the order of their names."""
    return [file.read_bytes() for file in files(directory, target)]


def files(directory: Path, target: str) -> list[Path]:
    return sorted(file for file in (directory / target).glob("*") if file.is_file())


def keep(directory: Path, target: str, data: bytes) -> Path:
    """The file of an input, written unless it is there."""
    file = directory / target / name_of(data)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def replace(target: str, inputs: Iterable[bytes]) -> None:
    """The corpus of a target is these inputs, and no others."""
    wanted = {name_of(data): data for data in inputs}
    for file in files(CORPUS, target):
        if file.name not in wanted:
            file.unlink()
    for data in wanted.values():
        keep(CORPUS, target, data)


def minimised(run: Callable[[bytes], None], inputs: Iterable[bytes]) -> list[bytes]:
    """The inputs that together reach all that the given ones do; short ones first, so that those are kept."""
    seen: set[Arc] = set()
    kept = []
    for data in sorted(set(inputs), key=lambda one: (len(one), one)):
        reached = arcs(run, data)
        if not reached <= seen:
            seen |= reached
            kept.append(data)
    return kept


def arcs(run: Callable[[bytes], None], data: bytes) -> set[Arc]:
    """What a run of the target reaches in StemmaDB."""
    reached: set[Arc] = set()
    last: dict[int, int] = {}

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if "/stemmadb/" not in file:
            return None
        if event == "call":
            last[id(frame)] = 0
        elif event == "line":
            reached.add((file, last.get(id(frame), 0), frame.f_lineno))
            last[id(frame)] = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(data)
    finally:
        sys.settrace(before)
    return reached
