"""Rows of the benchmarks: made from turns, merged, kept in a file; ratios and slopes. All figures are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.harness import growth, rows
from benchmarks.harness.resuming import Underway
from benchmarks.harness.rows import Key
from benchmarks.harness.turns import Turns, of_times, ratios, spread

OURS, ETCD = Key("commit", "stemmadb", 32), Key("commit", "etcd", 32)


def made_up(key: Key, *rates: float) -> rows.Row:
    return rows.made(key, [{"rate": rate, "p50_us": 1e6 / rate} for rate in rates], n=10, durable=True)


def test_a_row_has_every_column_and_the_medians_of_its_turns() -> None:
    row = made_up(OURS, 100.0, 300.0, 200.0)
    assert (row["scenario"], row["system"], row["clients"]) == OURS
    assert (row["rate"], row["rate_min"], row["rate_max"], row["reps"]) == (200.0, 100.0, 300.0, 3)
    assert row["p50_us"] == 5_000.0
    assert {"p99_us", "cpu_us_per_op", "durable", "n"} <= row.keys()
    assert row["cpu_us_per_op"] is None, "it was not measured"
    assert row["turns"]["rate"] == [100.0, 300.0, 200.0]


def test_a_system_that_is_not_on_the_list_is_an_internal_error() -> None:
    with pytest.raises(AssertionError):
        made_up(Key("commit", "stemmadb, patches", 32), 1.0)


def test_new_rows_replace_all_rows_of_their_scenario_and_no_others() -> None:
    old = [made_up(OURS, 1.0), made_up(Key("commit: old variant", "stemmadb", 1), 1.0), made_up(ETCD, 2.0)]
    others = [made_up(Key("commit_spaces", "stemmadb", 32), 3.0)]
    merged = rows.merged([*old, *others], [made_up(OURS, 9.0)])
    assert [(rows.key_of(row), row["rate"]) for row in merged] == [
        (OURS, 9.0),
        (Key("commit_spaces", "stemmadb", 32), 3.0),
    ]


def test_merged_rows_have_one_row_for_each_key_in_a_fixed_order() -> None:
    found = [made_up(ETCD, 1.0), made_up(OURS, 1.0), made_up(Key("commit", "etcd", 1), 1.0), made_up(OURS, 2.0)]
    merged = rows.merged([], found)
    assert [rows.key_of(row) for row in merged] == [Key("commit", "etcd", 1), OURS, ETCD]
    assert merged == rows.merged(merged, [])


def test_rows_come_back_from_their_file_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    assert rows.load(path) == {"machine": {}, "rows": []}
    kept = [made_up(OURS, 1.0, 2.0), made_up(ETCD, 3.0)]
    rows.save({"cores": 2}, kept, path)
    assert rows.load(path) == {"machine": {"cores": 2}, "rows": kept}
    rows.save({}, [], path)
    assert rows.load(path) == {"machine": {}, "rows": []}


def test_turns_become_one_row_for_each_key() -> None:
    turns = Turns()
    for rate in (1.0, 3.0):
        turns.add(OURS, {"rate": rate}, n=5)
        turns.add(ETCD, {"rate": rate * 2}, n=7, durable=False)
    turns.note(OURS, size=32)
    ours, etcd = turns.rows()
    assert (ours["rate"], ours["n"], ours["durable"], ours["size"]) == (2.0, 10, True, 32)
    assert (etcd["rate"], etcd["n"], etcd["durable"]) == (4.0, 14, False)


def test_ratios_are_taken_turn_by_turn() -> None:
    assert ratios([10.0, 40.0], [5.0, 10.0]) == [2.0, 4.0]
    assert ratios([10.0, 40.0], [5.0]) == [2.0], "a turn that the other did not have counts for nothing"
    assert spread([2.0, 8.0, 3.0]) == (3.0, 2.0, 8.0)


def test_times_become_a_rate_and_percentiles() -> None:
    assert of_times([0.001] * 99 + [0.101]) == pytest.approx({"rate": 500.0, "p50_us": 1_000.0, "p99_us": 101_000.0})


@pytest.mark.parametrize(("power", "expected"), [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
def test_the_slope_says_how_cost_follows_size(power: float, expected: float) -> None:
    sizes = [10.0, 100.0, 1_000.0]
    assert growth.slope(sizes, [7 * size**power for size in sizes]) == pytest.approx(expected)


def test_rows_at_several_sizes_get_the_slope_of_all_their_turns() -> None:
    turns = Turns()
    for size in (10, 100):
        key = Key(f"growth_data: {size} entities", "stemmadb", 1)
        turns.add(key, {"p50_us": 2.0 * size, "cpu_us_per_op": 0.0}, n=1)
        turns.note(key, size=size)
    for row in growth.fitted(turns.rows(), ("p50_us", "cpu_us_per_op")):
        assert row["slope_p50_us"] == 1.0
        assert "slope_cpu_us_per_op" not in row, "a cost of nothing has no logarithm"
        assert list(row)[-1] == "turns"


def test_a_stopped_run_knows_what_is_done_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / ".underway.json"
    Underway(path).note("commit")
    again = Underway(path)
    assert again.done == ["commit"]
    again.note("fanout")
    assert Underway(path).done == ["commit", "fanout"]
    again.end()
    assert Underway(path).done == []
    again.note("commit")
    again.start_over()
    assert Underway(path).done == []
