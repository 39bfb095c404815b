"""The real server and real clients under faults: a few cycles of each kind; `make soak` runs as many as you like."""

from __future__ import annotations

from typing import Final

import pytest

import faults_cycles
from faults_clients import client_kills
from faults_clock import clock_jumps
from faults_cycles import CHAIN_MAX, Weather
from faults_storm import KINDS

LIST_APPEND: Final = Weather(commits=4_500, faults=2 * len(KINDS), kinds=KINDS)
SERVER_KILLS: Final = Weather(commits=1_200, faults=8, kinds=("kill",))


@pytest.mark.rule("COMMIT-1", "COMMIT-2", "COMMIT-4", "COMMIT-5", "COMMIT-6")
def test_thousands_of_commits_on_lists_under_every_fault_have_no_cycle() -> None:
    report = faults_cycles.list_append(1, LIST_APPEND)
    assert report.operations >= LIST_APPEND.commits
    assert report.kinds == dict.fromkeys(KINDS, 2)
    assert LIST_APPEND.commits < CHAIN_MAX, "so few that the chain is verified by its specification too"


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "RESUME-2", "RESUME-3", "NURSERY-1")
def test_a_server_killed_again_and_again_under_load_loses_nothing_and_all_clients_converge() -> None:
    assert faults_cycles.server_kills(2, SERVER_KILLS).kinds["kill"] == SERVER_KILLS.faults


@pytest.mark.rule("NURSERY-5", "NURSERY-7", "COMMIT-5", "RESUME-2")
def test_apps_killed_at_any_moment_lose_nothing_that_they_called_kept() -> None:
    assert client_kills(3).kinds["kill"] == 8


@pytest.mark.rule("NURSERY-1", "RESUME-5")
def test_no_read_after_a_pause_of_the_server_is_older_than_what_was_acknowledged() -> None:
    assert faults_cycles.pauses(4).kinds["pause"] == 8


@pytest.mark.rule("WIRE-4", "SYNC-1", "RESUME-2")
def test_a_line_that_tears_delays_holds_and_cuts_at_any_byte_changes_nothing() -> None:
    assert faults_cycles.torn_frames(5).faults == 16


@pytest.mark.rule("COMMIT-7")
def test_a_clock_that_jumps_back_and_ahead_changes_no_order() -> None:
    assert clock_jumps(6).kinds["jump"] == 20
