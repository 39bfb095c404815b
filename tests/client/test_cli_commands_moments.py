"""Moments as people write them."""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from stemmadb.client.cli.moments import (
    AtHead,
    AtTag,
    AtTime,
    AtVersion,
    BranchMoment,
    When,
    parse,
    parse_place,
    parse_time,
)
from stemmadb.protocol.errors import InvalidName, InvalidQuery
from stemmadb.protocol.model.values.ids import BranchName, Version

NOW = datetime(2026, 11, 16, 9, 30, 15, tzinfo=UTC)


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> AtTime:
    return AtTime(datetime(year, month, day, hour, minute, second, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("42", AtVersion(Version(42))),
        ("0", AtVersion(Version(0))),
        (str(2**63 - 1), AtVersion(Version(2**63 - 1))),
        ("head", AtHead()),
        (" Now ", AtHead()),
        ("tag:v1", AtTag(BranchName("v1"))),
        ("TAG:V1", AtTag(BranchName("V1"))),
        ("10 minutes ago", at(2026, 11, 16, 9, 20, 15)),
        ("1 minute ago", at(2026, 11, 16, 9, 29, 15)),
        ("an hour ago", at(2026, 11, 16, 8, 30, 15)),
        ("a day ago", at(2026, 11, 15, 9, 30, 15)),
        ("2h ago", at(2026, 11, 16, 7, 30, 15)),
        ("1 hour 30 minutes ago", at(2026, 11, 16, 8, 0, 15)),
        ("1 hour and 30 mins ago", at(2026, 11, 16, 8, 0, 15)),
        ("1 hour, 15 secs ago", at(2026, 11, 16, 8, 30)),
        ("2 Weeks Ago", at(2026, 11, 2, 9, 30, 15)),
        ("0 seconds ago", AtTime(NOW)),
        ("yesterday", at(2026, 11, 15, 9, 30, 15)),
        ("yesterday 14:00", at(2026, 11, 15, 14)),
        ("yesterday at 14:00", at(2026, 11, 15, 14)),
        ("today", at(2026, 11, 16)),
        ("today 8:05", at(2026, 11, 16, 8, 5)),
        ("08:05:09", at(2026, 11, 16, 8, 5, 9)),
        ("2026-11-16", at(2026, 11, 16)),
        ("2026-11-16 09:00", at(2026, 11, 16, 9)),
        ("2026-11-16T09:00:01.250", AtTime(datetime(2026, 11, 16, 9, 0, 1, 250_000, UTC))),
        ("2026-11-16T09:00Z", at(2026, 11, 16, 9)),
        ("2026-11-16 09:00+02:00", AtTime(datetime(2026, 11, 16, 9, tzinfo=timezone(timedelta(hours=2))))),
    ],
)
def test_a_moment_is_what_a_person_means(text: str, when: When) -> None:
    assert parse(text, now=NOW, zone=UTC) == when


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ago",
        "minutes ago",
        "10 ago",
        "10 parsecs ago",
        "-1",
        "1.5",
        "tomorrow",
        "yesterday noon",
        "25:00",
        "2026-13-01",
        "2026-11-16 25:00",
        "999999999 weeks ago",
        str(2**63),
        "9" * 5_000,
        "٤٢",
    ],
)
def test_what_nobody_can_tell_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidQuery, match="10 minutes ago") as refused:
        parse(text, now=NOW, zone=UTC)
    assert len(refused.value.message) < 500


def test_a_tag_has_a_valid_name() -> None:
    with pytest.raises(InvalidName):
        parse("tag:", now=NOW, zone=UTC)


def test_a_time_without_a_zone_is_one_of_the_zone_that_is_given_in_summer_and_in_winter() -> None:
    zone = ZoneInfo("Europe/Berlin")
    assert parse_time("2026-07-01 12:00", now=NOW, zone=zone).astimezone(UTC).hour == 10
    assert parse_time("2026-12-01 12:00", now=NOW, zone=zone).astimezone(UTC).hour == 11
    assert parse_time("today", now=NOW, zone=zone) == datetime(2026, 11, 15, 23, tzinfo=UTC)


def test_without_a_zone_it_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    clock.tzset()
    try:
        assert parse_time("2026-07-01 12:00", now=NOW).astimezone(UTC).hour == 16
        assert parse_time("2026-12-01 12:00", now=NOW).astimezone(UTC).hour == 17
        assert parse_time("yesterday", now=NOW) == NOW - timedelta(days=1)
    finally:
        monkeypatch.undo()
        clock.tzset()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("42", BranchMoment(None, AtVersion(Version(42)))),
        ("yesterday", BranchMoment(None, at(2026, 11, 15, 9, 30, 15))),
        ("draft", BranchMoment(BranchName("draft"), AtHead())),
        ("branch:yesterday", BranchMoment(BranchName("yesterday"), AtHead())),
        ("branch:42@7", BranchMoment(BranchName("42"), AtVersion(Version(7)))),
        ("draft@40", BranchMoment(BranchName("draft"), AtVersion(Version(40)))),
        ("draft@10 minutes ago", BranchMoment(BranchName("draft"), at(2026, 11, 16, 9, 20, 15))),
    ],
)
def test_a_side_of_a_diff_is_a_moment_a_branch_or_both(text: str, place: BranchMoment) -> None:
    assert parse_place(text, now=NOW, zone=UTC) == place


@pytest.mark.parametrize("text", ["no such thing!", "9" * 30, ""])
def test_what_is_neither_a_moment_nor_a_branch_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery):
        parse_place(text, now=NOW, zone=UTC)
