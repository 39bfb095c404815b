"""What a scenario may ask of a peer: a system of others that does the same work as ours."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from benchmarks.load.loop import Client, Watcher


class Peer(Protocol):
    """One running server. Each client it makes has a connection of its own."""

    @property
    def name(self) -> str:
        """The `system` of its rows."""
        ...

    @property
    def durable(self) -> bool:
        """Whether every acknowledged write is synced."""
        ...

    @property
    def pids(self) -> tuple[int, ...]:
        """The roots of its process trees."""
        ...

    @property
    def version(self) -> str: ...

    def writer(self, key: str, value: bytes) -> Client:
        """Makes a new key. Each `send` sets it if its version is the one that was written last; history stays."""
        ...

    def watched_writer(self, key: str, value: bytes) -> Client:
        """A writer whose writes reach the watchers of the key; the same as `writer` where all writes do."""
        ...

    def watcher(self, key: str) -> Watcher:
        """`event` is called for each change of the key after this returned."""
        ...

    def past_reader(self, key: str, facts: int, chance: random.Random) -> Client:
        """Each `send` reads the value at a random version. The first reader of a key writes its `facts` versions.

        Every answer is compared with what was written at that version.
        """
        ...


class Kind(Protocol):
    """A module of this package."""

    @property
    def NAME(self) -> str: ...  # noqa: N802

    @property
    def DURABLE(self) -> bool: ...  # noqa: N802

    def is_installed(self) -> bool: ...

    def install(self) -> None:
        """From Debian or npm, by package name; `NotInstalled` says what to run by hand."""
        ...

    def served(self, directory: Path) -> AbstractContextManager[Peer]:
        """On loopback, with its data in the directory. Inside it has acknowledged a write; after, it is gone."""
        ...
