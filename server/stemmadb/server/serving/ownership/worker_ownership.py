"""Divides the spaces of a directory among the workers of one machine, by the DID alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from blake3 import blake3

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.ownership.port import SERVED_HERE, Owner, ServedBy

_BYTES: Final = 8


def worker_of(space: Did, workers: int) -> int:
    """The worker that serves a space: the first 8 bytes of BLAKE3(did), big-endian, modulo N (STORE-4)."""
    return int.from_bytes(blake3(space.encode()).digest(_BYTES), "big") % workers


class WorkerOwnership:
    """Implements `Ownership`. A space never changes its worker while the server runs, so nothing is asked."""

    is_single = False

    def __init__(self, me: int, addresses: Sequence[str]) -> None:
        """`addresses` has one for each worker, by number."""
        assert 0 <= me < len(addresses), "a worker is one of all"
        self._workers = len(addresses)
        self._owners: list[Owner] = [
            SERVED_HERE if number == me else ServedBy(address) for number, address in enumerate(addresses)
        ]

    def known(self, space: Did) -> Owner | None:
        return self._owners[worker_of(space, self._workers)]

    async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
        return {space: self._owners[worker_of(space, self._workers)] for space in spaces}

    def is_alive(self) -> bool:
        return True
