"""Every backend: times and hashes of commits, versions at times, and commits by filter with their times."""

from __future__ import annotations

from random import Random

import pytest

from random_logs import RandomLog
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS
from stemmadb.protocol.model.values.ids import TimeMs, Version
from stemmadb.server.storage.port import LogFilter, SpaceLog

MANY = 1_000


@pytest.mark.rule("HISTORY-4")
@pytest.mark.parametrize("seed", range(6))
def test_times_hashes_and_versions_at_times_are_those_of_the_commits(log: SpaceLog, seed: int) -> None:
    maker, chance = RandomLog(seed, log).run(10), Random(seed)
    made = {commit.version: commit.time for commit in maker.commits}
    with log.reader() as reader:
        assert reader.times([Version(one) for one in range(maker.version + 5)]) == made
        hashes = {commit.version: commit.hash for commit in maker.commits}
        assert reader.hashes([Version(one) for one in range(maker.version + 5)]) == hashes
        for size in (0, 1, 2, 7, 40):
            times = sorted(TimeMs(chance.randint(980, maker.now + 9)) for _ in range(size))
            assert reader.versions_at(times) == [reader.version_at(time) for time in times]
        for wanted in (LogFilter(), LogFilter(order="oldest"), LogFilter(structural=True), LogFilter(ordinary=True)):
            assert reader.log_times(wanted, MANY) == [(one.version, one.time) for one in reader.log(wanted, MANY)]
        ordinary = [commit.version for commit in maker.commits if commit.arguments == NO_ARGUMENTS]
        assert [version for version, _ in reader.log_times(LogFilter(ordinary=True, order="oldest"), 3)] == ordinary[
            :3
        ]
        for name in maker.branches:
            wanted = LogFilter(branch=name, ordinary=True)
            expected = [one.version for one in reader.log(LogFilter(branch=name), MANY) if one.version in ordinary]
            assert [version for version, _ in reader.log_times(wanted, MANY)] == expected
