"""What the benchmarks say: targets, floors, tables and plots, from small rows that are made up for these tests."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.harness import catalog, floors, plots, report, rows
from benchmarks.harness.charts import bars, lines
from benchmarks.harness.floors import Floor
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.target import Target, flatness, ratio, value
from benchmarks.harness.targets import TARGETS
from benchmarks.harness.turns import Turns, among

MACHINE = {
    "cores": 2,
    "cpu": "made up",
    "kernel": "none",
    "memory_gb": 1.0,
    "python": "3.11",
    "packages": {"apsw": "1"},
    "systems": {"etcd": "1"},
}


def made_up(figures: dict[Key, list[dict[str, float]]]) -> list[Row]:
    turns = Turns()
    for key, found in figures.items():
        for turn in found:
            turns.add(key, turn, n=1)
    return turns.rows()


def commits(*, ours: list[float], etcd: list[float]) -> list[Row]:
    return made_up(
        {
            Key("commit", "stemmadb", 32): [{"rate": rate, "cpu_us_per_op": 1.0} for rate in ours],
            Key("commit", "etcd", 32): [{"rate": rate, "cpu_us_per_op": 2.0} for rate in etcd],
        }
    )


def target(figure: str, row: str = "durable commits, 32 clients") -> Target:
    (found,) = (one for one in TARGETS if (one.row, one.figure) == (row, figure))
    return found


def shown(found: list[Row]) -> str:
    (line,) = (
        line for line in report.reached(among(found)).splitlines() if "32 clients | commits/s over etcd" in line
    )
    return line


# ------------------------------------------------------------ targets


def test_a_ratio_is_the_median_of_the_ratios_of_the_turns_with_their_range() -> None:
    found = among(commits(ours=[20.0, 20.0, 60.0], etcd=[10.0, 5.0, 20.0]))
    assert target("commits/s over etcd").measure(found) == (3.0, 2.0, 4.0)


def test_a_figure_without_its_rows_is_not_measured() -> None:
    assert target("commits/s over etcd").measure({}) is None
    assert value("p50_us", Key("sdk_write", "stemmadb", 1))({}) is None
    assert flatness("p50_us", [Key("past_flat: 10 facts", "stemmadb", 1)])({}) is None
    only_ours = among(commits(ours=[1.0], etcd=[]))
    assert ratio("rate", Key("commit", "stemmadb", 32), Key("commit", "etcd", 32))(only_ours) is None


def test_flatness_is_the_largest_over_the_smallest_turn_by_turn() -> None:
    keys = [Key(f"past_flat: {facts} facts", "stemmadb", 1) for facts in ("10", "1,000")]
    found = made_up({keys[0]: [{"p50_us": 10.0}, {"p50_us": 50.0}], keys[1]: [{"p50_us": 30.0}, {"p50_us": 25.0}]})
    assert flatness("p50_us", keys)(among(found)) == (2.5, 2.0, 3.0)


@pytest.mark.parametrize(
    ("ours", "first", "goal"),
    [
        (30.0, ">= 1.5x reached", ">= 2.5x reached"),
        (20.0, "reached", "not reached"),
        (14.0, "**LOST**", "not reached"),
    ],
)
def test_the_report_says_what_is_reached_and_what_is_lost(ours: float, first: str, goal: str) -> None:
    cells = shown(commits(ours=[ours], etcd=[10.0])).split(" | ")
    assert cells[3].endswith(first)
    assert cells[4].removesuffix(" |").endswith(goal)


def test_for_costs_less_is_better() -> None:
    cpu = target("over etcd", "server CPU per commit, 32 clients")
    figure = cpu.measure(among(commits(ours=[1.0], etcd=[1.0])))
    assert figure is not None
    assert figure.median == 0.5
    assert not cpu.reached(figure, 0.45)
    assert cpu.reached(figure, 0.5)


def test_what_was_not_measured_is_said_and_not_called_lost() -> None:
    assert "not measured" in report.reached({})
    assert "LOST" not in report.reached({})


def test_every_target_is_about_a_scenario_that_is_run() -> None:
    asked: set[str] = set()

    class Asked(dict[Key, Row]):
        def __contains__(self, key: object) -> bool:
            assert isinstance(key, Key)
            asked.add(rows.base(key.scenario))
            return False

    assert all(one.measure(Asked()) is None for one in TARGETS)
    assert asked <= set(catalog.ORDER)


def test_every_scenario_has_its_name_and_a_title() -> None:
    for name in catalog.ORDER:
        assert name == catalog.scenario(name).NAME
        assert catalog.title(name)
    assert set(catalog.QUICK) <= set(catalog.ORDER)


# ------------------------------------------------------------ floors


def test_a_ratio_below_its_floor_is_broken_and_so_is_a_cost_above() -> None:
    found = commits(ours=[10.0, 10.0, 1.0], etcd=[10.0, 10.0, 10.0])
    rate = {"scenario": "commit", "clients": 32, "column": "rate", "against": "etcd"}
    cpu = rate | {"column": "cpu_us_per_op"}
    holding = [Floor(**rate, at_least=1.0), Floor(**cpu, at_most=0.5)]  # type: ignore[arg-type]
    lines_, broken = floors.judged(holding, found)
    assert (len(lines_), broken) == (2, 0), "one bad turn is no loss"
    failing = [Floor(**rate, at_least=1.1), Floor(**cpu, at_most=0.4)]  # type: ignore[arg-type]
    lines_, broken = floors.judged(failing, found)
    assert broken == 2
    assert all(line.startswith("BROKEN") for line in lines_)


def test_a_floor_that_was_not_measured_is_left_out() -> None:
    assert floors.judged(floors.load(), []) == ([], 0)


def test_the_floors_are_about_what_a_quick_run_measures() -> None:
    kept = floors.load()
    assert {floor.scenario for floor in kept} == set(catalog.QUICK)
    assert {floor.against for floor in kept} == {"etcd", "sqlite"}


def test_a_floor_without_a_bound_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "floors.toml"
    path.write_text('[[floor]]\nscenario = "commit"\nclients = 1\ncolumn = "rate"\nagainst = "etcd"\n')
    with pytest.raises(ValueError, match="at_least or at_most"):
        floors.load(path)


# ------------------------------------------------------------ the page and its plots


def test_the_part_between_the_markers_is_replaced_and_nothing_else() -> None:
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    once = report.refreshed(page, "new")
    assert once == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    assert report.refreshed(once, "new") == once


def test_the_page_names_the_machine_every_row_and_who_is_not_durable() -> None:
    turns = Turns()
    turns.add(Key("commit", "nats", 1), {"rate": 5.0, "frame_bytes": 12.0}, n=1, durable=False)
    made = report.generated({"machine": MACHINE, "rows": turns.rows()})
    assert "2 cores (made up)" in made
    assert "nats (not durable)" in made
    assert "frame_bytes 12" in made


def test_the_readme_has_the_table_that_the_report_makes_of_the_results() -> None:
    page = report.README.read_text()
    assert report.refreshed(page, report.generated(rows.load())) == page


def test_the_plots_are_those_of_the_results() -> None:
    for name, svg in plots.drawn(rows.load()["rows"]).items():
        assert (plots.DIRECTORY / f"{name}.svg").read_text() == svg


def test_the_results_have_one_row_for_each_key_and_only_known_scenarios() -> None:
    found = rows.load()["rows"]
    assert found == rows.merged([], found)
    assert {rows.base(row["scenario"]) for row in found} <= set(catalog.ORDER)
    assert json.loads(rows.LATEST.read_text()).keys() == {"machine", "rows"}


def test_bars_are_as_long_as_their_values_and_text_is_escaped() -> None:
    svg = bars("a < b", {"1 client": {"ours": 10.0, "theirs": 5.0}}, {"ours": "#111111", "theirs": "#222222"})
    boxes = {box.get("fill"): box for box in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")}  # noqa: S314
    assert float(boxes["#111111"].attrib["width"]) == 2 * float(boxes["#222222"].attrib["width"])
    assert "a &lt; b" in svg


def test_on_two_logarithmic_axes_a_power_is_a_straight_line() -> None:
    svg = lines("made up", {"data": [(10.0, 2.0), (100.0, 20.0), (1_000.0, 200.0)]}, x="size", y="us")
    (line,) = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}polyline")  # noqa: S314
    (ax, ay), (bx, by), (cx, cy) = (map(float, point.split(",")) for point in line.attrib["points"].split())
    assert bx - ax == pytest.approx(cx - bx, abs=0.2)
    assert by - ay == pytest.approx(cy - by, abs=0.2)
    assert by < ay, "more is higher"


def test_plots_are_drawn_of_what_there_is() -> None:
    assert plots.drawn([]) == {}
    found = commits(ours=[2.0], etcd=[1.0])
    assert list(plots.drawn(found)) == report.plotted(found) == ["commit_rate", "commit_cpu"]
