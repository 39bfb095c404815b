"""The rules of workers without processes: restarts, shared limits, sums of metrics, how a directory is divided."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_world import new_key
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.http.base import membership
from stemmadb.server.serving.ownership.worker_ownership import worker_of
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.workers import arrangement, members, metrics_sum, places
from stemmadb.server.serving.workers.restarts import WINDOW_SECONDS, Restarts
from stemmadb.server.serving.workers.shared_limits import LocalCounts, SharedCounts
from stemmadb.server.storage.directory import WORKERS
from stemmadb.server.storage.port import StorageFailed


def test_restarts_slow_down_to_one_in_ten_seconds_and_recover() -> None:
    restarts, now, pauses = Restarts(), 0.0, []
    for _ in range(9):
        pauses.append(restarts.died(now))
        now += pauses[-1] + 0.5
    assert pauses == [0, 0.5, 1, 2, 5, 10, 10, 10, 10]
    assert restarts.is_troubled(now)
    now += WINDOW_SECONDS + 1
    assert not restarts.is_troubled(now)
    assert restarts.died(now) == 0


def test_five_deaths_in_a_minute_are_trouble() -> None:
    restarts = Restarts()
    found = []
    for number in range(5):
        restarts.died(10.0 * number)
        found.append(restarts.is_troubled(10.0 * number))
    assert found == [False] * 4 + [True]
    assert not restarts.is_troubled(WINDOW_SECONDS + 1)


@given(st.randoms(use_true_random=False))
def test_what_is_full_is_what_all_workers_have_together(chance: random.Random) -> None:
    """Against counting everything anew after each step."""
    shared = SharedCounts(connections_max=5, per_address_max=2, per_principal_max=3)
    told = frozenset[str]()
    locals_ = [LocalCounts() for _ in range(3)]
    truth = [Counter[str]() for _ in range(3)]
    for _ in range(60):
        number = chance.randrange(3)
        if chance.random() < 0.05:
            if shared.forget(number):
                told = shared.full
            locals_[number], truth[number] = LocalCounts(), Counter()
        else:
            key = chance.choice(["all", "a:1", "a:2", "p:x"])
            step = -1 if truth[number][key] and chance.random() < 0.4 else 1
            locals_[number].count(key, step)
            truth[number][key] += step
            if shared.take(number, locals_[number].report()):
                told = shared.full
        sums = sum(truth, Counter())
        maxima = {"all": 5, "a:1": 2, "a:2": 2, "p:x": 3}
        assert told == {key for key, maximum in maxima.items() if sums[key] >= maximum}


def test_changes_are_reported_once_and_as_they_are_by_then() -> None:
    asked = []
    counts = LocalCounts(lambda: asked.append(1))
    counts.count("all", 1)
    counts.count("all", 1)
    counts.count("p:x", 1)
    counts.count("p:x", -1)
    assert counts.report() == {"all": 2, "p:x": 0}
    assert counts.report() == {}
    assert len(asked) == 1
    counts.take(frozenset({"all"}))
    assert counts.is_full("all")
    assert not counts.is_full("p:x")


def test_metrics_of_workers_are_added_up_line_by_line() -> None:
    head, start = b"# HELP a Things.\n# TYPE a counter\n", b"# HELP process_start_time_seconds S.\n"
    one = head + b'a_total 3.0\na_total{space="x y"} 1.0\n' + start + b"process_start_time_seconds 50.0\n"
    two = head + b'a_total 4.0\na_total{space="z"} 1.5\n' + start + b"process_start_time_seconds 40.0\n"
    lines = metrics_sum.add_up([one, two], workers=3).decode().splitlines()
    assert lines[:5] == [
        "# HELP a Things.",
        "# TYPE a counter",
        "a_total 7.0",
        'a_total{space="x y"} 1.0',
        'a_total{space="z"} 1.5',
    ]
    assert "process_start_time_seconds 40.0" in lines
    assert lines[-1] == "stemmadb_workers_missing 1"
    assert "stemmadb_workers 3" in lines


def test_rows_of_the_membership_are_divided_anew(tmp_path: Path) -> None:
    lists = {Did(new_key().did): {f"did:{number % 3}": "own"} for number in range(30)}
    members.write(tmp_path, dict(lists), 1)
    for workers in (4, 2, 3, 1):
        arrangement.settle(tmp_path, workers)
        found: dict[Did, dict[str, str]] = {}
        homes = [tmp_path] if workers == 1 else [places.place(tmp_path, number) for number in range(workers)]
        for number, home in enumerate(homes):
            for principal, space, role in membership.rows(home):
                assert workers == 1 or worker_of(Did(space), workers) == number
                found.setdefault(Did(space), {})[principal] = role
        assert found == lists
        assert (tmp_path / membership.FILE).exists() == (workers == 1)
        assert (tmp_path / WORKERS).exists() == (workers > 1)


def test_a_directory_with_a_group_wal_is_not_removed(tmp_path: Path) -> None:
    arrangement.settle(tmp_path, 3)
    (places.place(tmp_path, 2) / "group_wal.0").write_bytes(b"needed")
    arrangement.settle(tmp_path, 1)
    assert (places.place(tmp_path, 2) / "group_wal.0").exists()
    with pytest.raises(StorageFailed, match="group_wal"):
        arrangement.settle(tmp_path, 2)


def test_a_path_that_is_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="bytes"):
        places.check(tmp_path / ("x" * 100), 2)
    places.check(Path("/tmp/d"), 2)  # noqa: S108


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 1000}, "workers"),
        ({"workers": 200, "cache_bytes_max": 64 * 1024 * 1024}, "cache_bytes_max"),
        ({"workers": 2, "accept_only": 2}, "accept_only"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(settings: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config(**settings)  # type: ignore[arg-type]
