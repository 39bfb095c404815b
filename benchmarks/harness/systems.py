"""The systems that take turns in a scenario: ours, and those peers that are installed or can be."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.load.processes import DIRECTORY
from benchmarks.ours import system as ours
from benchmarks.peers import KINDS
from benchmarks.peers.port import Kind, Peer
from benchmarks.peers.process import NotInstalled

VERSIONS: dict[str, str] = {}
"""Of the systems that this process has served."""


def available(names: Sequence[str]) -> list[Kind]:
    """Installs what is missing; what cannot be installed is named, and the run goes on without it."""
    return [KINDS[name] for name in names if name in KINDS and _is_there(KINDS[name])]


def _is_there(kind: Kind) -> bool:
    if kind.is_installed():
        return True
    try:
        kind.install()
    except NotInstalled as error:
        print(f"   without {kind.NAME}: {error}", file=sys.stderr, flush=True)
    return kind.is_installed()


@contextmanager
def serving(peers: Sequence[str]) -> Iterator[list[Peer]]:
    """All of them started, ours first; each has a directory of its own, and all are stopped at the end."""
    with ExitStack() as stack:
        started: list[Peer] = [stack.enter_context(_served(ours))]
        started += [peer for kind in available(peers) if (peer := _started(stack, kind)) is not None]
        VERSIONS.update({system.name: system.version for system in started})
        yield started


def _started(stack: ExitStack, kind: Kind) -> Peer | None:
    """A peer that does not start is named, like one that is not there."""
    try:
        return stack.enter_context(_served(kind))
    except (NotInstalled, RuntimeError) as error:
        print(f"   without {kind.NAME}: {error}", file=sys.stderr, flush=True)
        return None


@contextmanager
def _served(kind: Kind) -> Iterator[Peer]:
    with (
        tempfile.TemporaryDirectory(prefix=f"{kind.NAME}-bench-", dir=DIRECTORY) as name,
        kind.served(Path(name)) as it,
    ):
        yield it
