"""Clients of a closed loop on one of our spaces: they write, or they read the past."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Self

from benchmarks.load.document import DOCUMENT
from benchmarks.ours.sessions import Session, write
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.wire.messages.reading import QueryRequest


class Writer(Session):
    """A client of a closed loop: writes its own entity, on what it wrote before."""

    id: EntityId
    patches = False
    """Whether it patches two fields in the place of setting the whole."""

    def begin(self, id_: str, document: object = DOCUMENT) -> Self:
        """Makes the entity; from then on a loop can drive it."""
        self.id = EntityId(id_)
        self.version = self.commit([Operation(op="set", id=self.id, body=encode(document), blind=True)])
        self.ready()
        return self

    def send(self) -> None:
        version = Version(self.version)
        if self.patches:
            self.push(
                (Operation(op="patch", id=self.id, body=_change(self.local)),),
                (
                    Read(version=version, id=self.id, path="/count"),
                    Read(version=version, id=self.id, path="/by/name"),
                ),
            )
        else:
            body = encode(DOCUMENT | {"count": self.local})
            self.push((Operation(op="set", id=self.id, body=body),), (Read(version=version, id=self.id),))


def _change(number: int) -> bytes:
    return encode(
        [
            {"op": "replace", "path": "/count", "value": number},
            {"op": "replace", "path": "/by/name", "value": "bob"},
        ]
    )


class PastReader(Session):
    """Reads one entity at a version of its past, each time another, and looks whether it is as it was written."""

    _roots: tuple[Root, ...]
    _values: dict[int, bytes]
    _versions: list[int]
    _chance: random.Random
    _asked = 0
    _expected = b""

    def begin(self, id_: str, values: dict[int, bytes], chance: random.Random) -> Self:
        """`values` are those at each version."""
        self._roots, self._values, self._versions, self._chance = (Root(id=id_),), values, list(values), chance
        self.ready()
        return self

    def send(self) -> None:
        self._asked += 1
        version = self._chance.choice(self._versions)
        self._expected = self._values[version]
        self.link.send(write(QueryRequest(id=self._asked, query=Query(roots=self._roots, version=version))))

    def _on_message(self, data: bytes) -> None:
        if self._take(data).type == "ok":
            assert self._expected in data, "another value than was written there"
            self.answered()


class MakingWriter(Writer):
    """Every other commit makes a new entity."""

    def send(self) -> None:
        if self.local % 2:
            super().send()
        else:
            made = EntityId(f"{self.id}:{self.number}:{self.local}")
            self.push((Operation(op="set", id=made, body=encode(DOCUMENT | {"count": self.local}), blind=True),))


class Rota:
    """One client with several sessions, which commit one after the other."""

    def __init__(self, writers: Sequence[Writer]) -> None:
        self.answered: Callable[[], None] = _nothing
        self.links = [writer.link for writer in writers]
        self.link = self.links[0]
        self._writers, self._next = writers, 0
        for writer in writers:
            writer.answered = self._answered

    def send(self) -> None:
        self._writers[self._next].send()
        self._next = (self._next + 1) % len(self._writers)

    def _answered(self) -> None:
        self.answered()


def _nothing() -> None:
    """Nobody waits."""
