"""A primary with a synchronous standby: what was acknowledged survives the loss of either."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from appends import append_to
from logs import LogMaker
from postgres_server import OwnServer
from space import SPACE, set_
from standbys import a_pair, promoted, waiting_for_standby
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.port import StorageFailed
from stemmadb.server.storage.postgres import PostgresStorage

BEFORE_THE_END = 40


@pytest.fixture
def pair() -> Iterator[tuple[OwnServer, OwnServer]]:
    with a_pair(synchronous=True) as made:
        yield made


class Writer:
    """Appends one commit after the other until one fails, and knows how far it is acknowledged."""

    def __init__(self, storage: PostgresStorage) -> None:
        self.maker = LogMaker()
        self.acknowledged = Version(0)
        self._log = storage.open(SPACE, create=True)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            write = self.maker.commit(set_("urn:x", int(self.acknowledged), blind=True))
            try:
                append_to(self._log, self.acknowledged, [write])
            except StorageFailed:
                return
            self.acknowledged = write.commit.version

    def until(self, version: int) -> None:
        while self.acknowledged < version:
            time.sleep(0.005)

    def ended(self) -> int:
        self._thread.join()
        return int(self.acknowledged)


@pytest.mark.rule("STORE-9", "COMMIT-1", "COMMIT-10")
def test_lost_append_at_most_and_no_acknowledged_one_when_the_standby_is_promoted(
    pair: tuple[OwnServer, OwnServer],
) -> None:
    primary, standby = pair
    storage = PostgresStorage(primary.url, lease_ms=60_000)
    writer = Writer(storage)
    writer.until(BEFORE_THE_END)
    primary.kill()
    acknowledged = writer.ended()
    after = PostgresStorage(promoted(standby), read_only=True)
    found = verify_space(after, SPACE)
    assert acknowledged <= found.version <= acknowledged + 1
    after.close()
    storage.close()


@pytest.mark.rule("STORE-9", "COMMIT-10")
def test_restarted_while_waiting_for_the_standby_an_append_is_acknowledged_to_nobody(
    pair: tuple[OwnServer, OwnServer],
) -> None:
    """The row is there after the restart, on one machine; the claim waits until it is on two."""
    primary, standby = pair
    storage = PostgresStorage(primary.url, lease_ms=60_000)
    writer = Writer(storage)
    writer.until(BEFORE_THE_END)
    standby.kill()
    while not waiting_for_standby(primary.url):
        time.sleep(0.01)
    primary.kill()
    acknowledged = writer.ended()
    mark = storage.node.mark
    primary.start()
    claimed: list[int] = []

    def claim() -> None:
        while not claimed:
            try:
                log = storage.open(SPACE)
            except StorageFailed:
                time.sleep(0.05)
                continue
            with log.reader() as reader:
                claimed.append(reader.tip().version)

    claiming = threading.Thread(target=claim)
    claiming.start()
    while not waiting_for_standby(primary.url):
        time.sleep(0.01)
    assert claimed == []
    standby.start()
    claiming.join()
    assert acknowledged <= claimed[0] <= acknowledged + 1
    assert storage.node.mark != mark  # long before the next heartbeat: the claim's connection has woken it
    primary.kill()
    after = PostgresStorage(promoted(standby), read_only=True)
    assert verify_space(after, SPACE).version == claimed[0]
    after.close()
    storage.close()
