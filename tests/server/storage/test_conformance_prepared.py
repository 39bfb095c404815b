"""Every backend: a batch that was prepared is the batch that is appended, and preparing shows nothing."""

from __future__ import annotations

import pytest

from backends import Backend
from logs import LogMaker
from random_logs import RandomLog
from space import patch_, set_
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.port import LogMoved, SpaceLog

ZERO = Version(0)


def verified(log: SpaceLog) -> int:
    with log.reader() as reader:
        return max((one.version for one in chain.verify(log.space, reader.history())), default=0)


@pytest.mark.rule("COMMIT-1")
@pytest.mark.parametrize("seed", range(6))
def test_a_log_that_was_prepared_batch_by_batch_is_the_same_log(backend: Backend, seed: int) -> None:
    log = backend.open()
    maker = RandomLog(seed, log).run(30)
    with log.reader() as reader:
        assert [commit.hash for commit, _ in reader.history()] == [commit.hash for commit in maker.commits]
    assert verified(log) == maker.version


@pytest.mark.rule("COMMIT-1")
def test_what_was_prepared_and_found_the_log_elsewhere_leaves_nothing_behind(backend: Backend) -> None:
    maker = LogMaker()
    log = backend.open()
    first = [maker.commit(set_("urn:x", 1, blind=True))]
    log.append(ZERO, first)
    second = [maker.commit(set_("urn:x", 2, blind=True))]
    log.prepare(second)
    with pytest.raises(LogMoved):
        log.append(ZERO, second)
    log.append(Version(1), second)
    third = [maker.commit(patch_("urn:x", {"op": "replace", "path": "", "value": 3}, blind=True))]
    log.prepare(third)
    log.append(Version(2), third)
    assert verified(log) == 3


@pytest.mark.rule("COMMIT-1")
def test_what_is_prepared_and_never_appended_is_not_there(backend: Backend) -> None:
    maker = LogMaker()
    log = backend.open()
    log.append(ZERO, [maker.commit(set_("urn:x", 1, blind=True))])
    with log.reader() as reader:
        before = list(reader.history())
    log.prepare([maker.commit(set_("urn:x", 2, blind=True))])
    with log.reader() as reader:
        assert list(reader.history()) == before
