"""`stemmadb bench` on a real server: three measurements, a table that says what they mean, nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_homes import Home
from served import Process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("data"))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def ada(server: Process, tmp_path: Path) -> Home:
    return Home(tmp_path / "ada", server.address)


def test_bench_measures_commits_events_and_reads_of_the_past(ada: Home) -> None:
    ran = ada("bench", "--clients", 2, "--seconds", 0.2, "--json")
    assert ran.code == 0, ran.err
    results = {one["what"]: one for one in ran.json["results"]}
    assert list(results) == ["commit", "event", "past read"]
    for one in results.values():
        assert one["n"] > 0
        assert one["rate"] > 0
        assert 0 < one["p50_us"] <= one["p99_us"]
    assert ran.json["clients"] == 2
    assert ran.json["client_cpu_share"] > 0


def test_bench_prints_a_table_and_what_it_means(ada: Home) -> None:
    ran = ada("bench", "--clients", 1, "--seconds", 0.1)
    assert ran.code == 0, ran.err
    head, *rows = ran.out.splitlines()
    assert head.split() == ["MEASURED", "PER", "SECOND", "P50", "MS", "P99", "MS", "N"]
    assert [row.split()[0] for row in rows[:3]] == ["commit", "event", "past"]
    assert "on the server's disk" in ran.out
    assert "The scratch space remains on the server: did:key:" in ran.out


def test_bench_works_in_a_space_of_its_own_that_has_no_name_here(ada: Home) -> None:
    before = ada("space", "list", "--json").json["spaces"]
    ran = ada("bench", "--clients", 1, "--seconds", 0.1, "--json")
    assert ada("space", "list", "--json").json["spaces"] == before
    assert ran.json["space"] not in [one["space"] for one in before]


def test_bench_of_a_server_that_is_not_there_cannot_reach_it(tmp_path: Path) -> None:
    ran = Home(tmp_path / "ada", "ws://127.0.0.1:1")("bench", "--seconds", 0.1, "--json")
    assert (ran.code, ran.error) == (3, "unreachable")


@pytest.mark.parametrize("words", [("--clients", 0), ("--seconds", 0)])
def test_bench_without_clients_or_time_is_wrong_use(ada: Home, words: tuple[object, ...]) -> None:
    assert ada("bench", *words, "--json").error == "wrong_use"
