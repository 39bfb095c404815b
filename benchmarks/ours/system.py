"""StemmaDB as one of the systems that take turns: what a peer offers, over the socket, with everything on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from benchmarks.load.document import DOCUMENT
from benchmarks.ours import service, sessions, writers
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId

NAME = "stemmadb"
DURABLE = True
IN_FLIGHT = 100


class System:
    """A server and one space on it, in which every key is an entity."""

    name = NAME
    durable = DURABLE

    def __init__(self, server: service.Server) -> None:
        self.pids = (server.pid,)
        self.port = server.port
        self.version = metadata.version("stemmadb")
        self._space = sessions.Space.made(server.port)
        self._histories: dict[str, dict[int, bytes]] = {}

    def writer(self, key: str, value: bytes) -> writers.Writer:  # noqa: ARG002  the same document, which it encodes
        return self._space.of(writers.Writer).begin(id_of(key))

    watched_writer = writer

    def watcher(self, key: str) -> sessions.Session:
        session = self._space.session()
        session.watch(sessions.query_of(id_of(key)))
        return session.ready()

    def past_reader(self, key: str, facts: int, chance: random.Random) -> writers.PastReader:
        """Whole values, as peers have them. The first reader of a key writes its history."""
        return self.reader(key, facts, chance, patches=False)

    def reader(self, key: str, facts: int, chance: random.Random, *, patches: bool) -> writers.PastReader:
        """Of whole values, or of one and then patches of it."""
        if key not in self._histories:
            self._histories[key] = write_history(self._space, id_of(key), facts, patches=patches)
        return self._space.of(writers.PastReader).begin(id_of(key), self._histories[key], chance)


def id_of(key: str) -> str:
    return f"urn:bench:{key}"


def write_history(space: sessions.Space, id_: str, facts: int, *, patches: bool) -> dict[int, bytes]:
    """So many facts on one entity, many in flight; the value at each version."""
    session = space.session()
    values = [encode(DOCUMENT | {"count": number}) for number in range(facts)]
    first = session.commit([_whole(id_, values[0])])
    for start in range(1, facts, IN_FLIGHT):
        numbers = range(start, min(start + IN_FLIGHT, facts))
        session.commit_all([[_patch(id_, n) if patches else _whole(id_, values[n])] for n in numbers])
    session.link.close()
    return dict(enumerate(values, first))


def _whole(id_: str, value: bytes) -> Operation:
    return Operation(op="set", id=EntityId(id_), body=value, blind=True)


def _patch(id_: str, number: int) -> Operation:
    change = [{"op": "replace", "path": "/count", "value": number}]
    return Operation(op="patch", id=EntityId(id_), body=encode(change), blind=True)


def is_installed() -> bool:
    return True


def install() -> None:
    """It is here."""


@contextmanager
def served(directory: Path) -> Iterator[System]:
    server = service.start(directory)
    try:
        yield System(server)
    finally:
        server.stop()
