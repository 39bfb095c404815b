"""Power loss at any point of a life of a log: nothing acknowledged is lost, and what is found is whole (COMMIT-1)."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

from faulty_vfs import Event, faulty
from logs import LogMaker
from power_images import Disk, anywhere, images, put
from random_logs import IDS, RandomLog
from space import SPACE
from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.engine.base import states
from stemmadb.server.storage.port import LogReader, StorageFailed, StoredBlob
from stemmadb.server.storage.sqlite import SqliteStorage, connection
from stemmadb.server.storage.sqlite.log import SqliteLog
from stemmadb.server.storage.sqlite.storage import SPACES

LIVES = 6
BATCHES = 16
IMAGES = 200  # of each life
IMAGES_TWICE = 40
WAL_PAGES = 24  # so few that the write-ahead log is moved into the database every few batches


class Moment(msgspec.Struct):
    """What the log holds after a batch: its end, its facts as stored, and each head as a fold of all of them."""

    hash: Hash
    facts: list[Fact]
    heads: list[tuple[tuple[Span, ...], dict[EntityId, Value | Missing]]]
    blobs: set[Hash]
    """Those kept before the batch was acknowledged; later ones may be there too."""


def moment(maker: LogMaker, blobs: set[Hash]) -> Moment:
    lineages = [maker.spans(name) for name in sorted(maker.branches)]
    ids = [EntityId(id_) for id_ in IDS]
    heads = [(spans, {id_: maker.value(spans, id_) for id_ in ids if maker.seen(spans, id_)}) for spans in lineages]
    return Moment(maker.tip.hash, list(maker.facts), heads, set(blobs))


class Life(msgspec.Struct):
    """Everything a disk was told, and what the log held after each batch; versions acknowledged are marked."""

    events: list[Event]
    moments: dict[Version, Moment]


def live(seed: int, directory: Path, *, synchronous: str | None = None) -> Life:
    """Batches with destroyed bodies, snapshots, blobs, scrubs, and a restart in the middle."""
    with faulty() as vfs:
        storage = SqliteStorage(directory, vfs=vfs.name)
        log = opened(storage, synchronous)
        random_log, blobs = RandomLog(seed, log), set[Hash]()
        maker = random_log.maker
        moments = {Version(0): moment(maker, blobs)}
        for number in range(BATCHES):
            blobs.add(put_blob(log, number))
            random_log.append()
            vfs.mark(maker.version)
            moments[maker.version] = moment(maker, blobs)
            if log.owes_scrub and number % 3 == 0:
                log.scrub()
            if number == BATCHES // 2:
                log.close()
                log = random_log.log = opened(storage, synchronous)
        storage.close()
        return Life(vfs.events, moments)


def opened(storage: SqliteStorage, synchronous: str | None) -> SqliteLog:
    log = storage.open(SPACE, create=True)
    assert log._writer is not None
    if synchronous is not None:
        log._writer.pragma("synchronous", synchronous)
    return log


def put_blob(log: SqliteLog, number: int) -> Hash:
    data = bytes([number]) * 100
    hash_ = Hash(blake3(data).digest())
    log.put_blob(StoredBlob(hash_, len(data), "text/plain", TimeMs(number), in_file=False), data)
    return hash_


def check(directory: Path, life: Life, acknowledged: int) -> None:
    """Whatever was acknowledged is there, in whole batches; the chain verifies; states are its fold."""
    storage = SqliteStorage(directory)
    log = storage.open(SPACE, create=True)
    try:
        with log.reader() as reader:
            tip = reader.tip()
            assert acknowledged <= tip.version, "an acknowledged batch is lost"
            expected = life.moments[tip.version]
            history = list(reader.history())
            list(chain.verify(SPACE, history))
            assert tip.hash == expected.hash
            assert [fact for _, facts in history for fact in facts] == expected.facts
            check_states(reader, expected)
            assert life.moments[Version(acknowledged)].blobs <= {blob.hash for blob in reader.blobs()}
        assert log.integrity() == []
    finally:
        storage.close()


def check_states(reader: LogReader, expected: Moment) -> None:
    for spans, heads in expected.heads:
        found = states.load(reader, spans, map(EntityId, IDS))
        assert {id_: loaded.value for id_, loaded in found.items()} == heads


@pytest.fixture(autouse=True)
def _small_write_ahead_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAL_PAGES_MAX", WAL_PAGES)


def found_bad(life: Life, scratch: Path, count: int, seed: int) -> int:
    """How many of the images are not what they must be."""
    bad = 0
    for acknowledged, files in images(life.events, anywhere(life.events, count, seed), seed):
        put(scratch / SPACES / SPACE, files)
        try:
            check(scratch, life, acknowledged)
        except (AssertionError, KeyError, BrokenChain, StorageFailed):
            bad += 1
    return bad


@pytest.mark.rule("COMMIT-1", "COMMIT-8", "STORE-1")
@pytest.mark.parametrize("seed", range(LIVES))
def test_no_power_loss_takes_what_was_acknowledged(tmp_path: Path, scratch: Path, seed: int) -> None:
    assert lose_power(seed, tmp_path, scratch) == IMAGES


def lose_power(seed: int, directory: Path, scratch: Path) -> int:
    """One life, and as many images of what a power failure may leave of it."""
    life = live(seed, directory)
    count = 0
    for acknowledged, files in images(life.events, anywhere(life.events, IMAGES, seed), seed):
        put(scratch / SPACES / SPACE, files)
        check(scratch, life, acknowledged)
        count += 1
    return count


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("seed", range(2))
def test_power_that_fails_again_while_the_log_is_opened_takes_nothing_more(
    tmp_path: Path, scratch: Path, seed: int
) -> None:
    life = live(seed, tmp_path)
    points = anywhere(life.events, IMAGES_TWICE, seed)
    for number, (acknowledged, files) in enumerate(images(life.events, points, seed)):
        put(scratch / SPACES / SPACE, files)
        with faulty() as vfs:
            storage = SqliteStorage(scratch, vfs=vfs.name)
            storage.open(SPACE, create=True)
            storage.close()
        for _, left in images(vfs.events, anywhere(vfs.events, 3, number), number, files):
            put(scratch / SPACES / SPACE, left)
            check(scratch, life, acknowledged)


@pytest.mark.rule("COMMIT-1")
def test_a_disk_that_is_not_waited_for_does_lose_something(tmp_path: Path, scratch: Path) -> None:
    """The images can be bad, and the check sees it: without a sync for each batch they are."""
    assert found_bad(live(0, tmp_path, synchronous="NORMAL"), scratch, count=100, seed=0) > 20


@pytest.mark.rule("STORE-1")
def test_a_disk_that_lost_nothing_holds_all_of_it(tmp_path: Path, scratch: Path) -> None:
    """The files really there and those made from the recording are the same."""
    life = live(0, tmp_path)
    disk = Disk(random.Random(0))
    for event in life.events:
        disk.take(event)
    disk.sync_all()
    real = {file.name: file.read_bytes() for file in (tmp_path / SPACES / SPACE).iterdir()}
    assert disk.after_power_loss() == real
