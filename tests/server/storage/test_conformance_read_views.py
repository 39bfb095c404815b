"""Every backend: a reader is one read view, however the log moves on; several threads read while one writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import Thread

import pytest

from answers import asked_of, everything
from appends import append_to
from logs import LogMaker
from random_logs import RandomLog
from snapshots import drop_snapshots
from space import SPACE, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.ids import EntityId, Hash, TimeMs, Version
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import AcceptedWrite, SpaceLog, StoredBlob

READERS = 3
BATCHES = 30


@pytest.mark.rule("STORE-2", "COMMIT-1", "HISTORY-2")
@pytest.mark.parametrize("seed", range(400, 405))
def test_a_cut_stays_as_it_is_while_the_log_moves_on(log: SpaceLog, seed: int) -> None:
    """It is asked after all that is written later, and answers as a log that ends there."""
    ending = MemoryStorage().open(SPACE, create=True)
    making, ended = RandomLog(seed, log), RandomLog(seed, ending)
    with ExitStack() as views:
        opened = []
        for _ in range(4):
            opened.append(views.enter_context(log.reader()))
            making.run(3)
        asked = asked_of(making.maker)
        for reader in opened:
            with ending.reader() as alone:
                assert everything(reader, asked) == everything(alone, asked)
            ended.run(3)
        before = [everything(reader, asked) for reader in opened]
        making.run(3)
        drop_snapshots(log)
        assert [everything(reader, asked) for reader in opened] == before


@pytest.mark.rule("ERASE-1")
def test_a_cut_from_before_an_erasure_still_shows_the_body_and_a_later_one_does_not(log: SpaceLog) -> None:
    maker = LogMaker()
    first = maker.commit(set_("urn:x", "secret", blind=True), note=b"\xa3why")
    append_to(log, Version(0), [first])
    with log.reader() as before:
        append_to(log, Version(1), [maker.erase("urn:x", [1])])
        assert before.facts([Version(1)])[Version(1)] == first.facts
        assert before.commits([Version(1)])[Version(1)].note == b"\xa3why"
    with log.reader() as after:
        assert after.facts([Version(1)])[Version(1)][0].is_gone


def test_a_cut_does_not_see_blobs_and_snapshots_of_later(log: SpaceLog) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_("urn:x", 1, blind=True))])
    one, other = (StoredBlob(Hash(bytes([n]) * 32), 1, "text/plain", TimeMs(5), in_file=False) for n in (1, 2))
    log.put_blob(one, b"1")
    taken = maker.snapshot(maker.facts[0])
    assert taken is not None
    with log.reader() as reader:
        assert reader.blob(one.hash) == one
        log.put_blob(other, b"2")
        log.drop_blobs([one.hash])
        log.store_snapshots([taken])
        assert list(reader.blobs()) == [one]
        assert (reader.blob_data(one.hash), reader.blob_data(other.hash)) == (b"1", None)
        assert list(reader.snapshots()) == []


@pytest.mark.rule("STORE-2", "COMMIT-1")
def test_threads_see_whole_batches_only_and_all_that_was_durable(log: SpaceLog) -> None:
    maker = LogMaker()
    batches = [make_batch(maker, number) for number in range(BATCHES)]
    ends = [batch[-1].commit.version for batch in batches]
    durable = [Version(0)]
    failures: list[BaseException] = []

    def write() -> None:
        for batch in batches:
            append_to(log, durable[-1], batch)
            durable.append(batch[-1].commit.version)

    def read() -> None:
        seen = Version(0)
        while seen < ends[-1] and not failures:
            least = durable[-1]
            with log.reader() as reader:
                tip = reader.tip()
                history = list(reader.history())
                states = reader.replays(maker.spans(version=maker.version), [EntityId("urn:x")])
            assert tip.version in (0, *ends)
            assert tip.version >= max(least, seen)
            assert [record for record, _ in history] == maker.commits[: tip.version]
            assert [one.facts[-1].version for one in states.values()] == ([tip.version] if tip.version else [])
            seen = tip.version

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as failure:
                failures.append(failure)
                raise

        return run

    threads = [Thread(target=guarded(work), daemon=True) for work in (write, *[read] * READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)
    with log.reader() as reader:
        assert list(chain.verify(log.space, reader.history()))[-1].version == maker.version


def make_batch(maker: LogMaker, number: int) -> list[AcceptedWrite]:
    """The last commit of each batch writes `urn:x`."""
    others = [maker.commit(set_(f"urn:y:{number}:{n}", n, blind=True)) for n in range(number % 3)]
    return [*others, maker.commit(set_("urn:x", number, blind=True))]
