"""Logs: their two forms, and that nothing of what clients send gets into them."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stemmadb.server.log_events import FRAMES_MAX, Log
from stemmadb.server.serving.logs import (
    HIDDEN_FIELDS,
    QUIET,
    TEXT_MAX,
    Format,
    logging_to,
    short_did,
)
from wire_peers import SERVER, SPACE

LOG = Log("testing")
SECRET = "correct horse"  # noqa: S105


class Lines:
    """What was logged so far."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@contextmanager
def logged(form: Format = "json", level: str = "debug") -> Iterator[Lines]:
    lines = Lines()
    with logging_to(lines.stream, form=form, level=level):
        yield lines


def test_a_json_line_has_time_level_event_and_fields() -> None:
    with logged() as lines:
        LOG.info("listening", port=8420, host="127.0.0.1", tls=False, share=0.5, none=None)
    (line,) = lines.json
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    fields = {"port": 8420, "host": "127.0.0.1", "tls": False, "share": 0.5, "none": None}
    assert line == {"level": "info", "event": "listening"} | fields


def test_a_human_line_is_read_from_left_to_right() -> None:
    with logged("human") as lines:
        LOG.warning("slow", space=SPACE, why="two words", ms=12, empty="", sure=True)
    line = lines.text.split(" ", 1)[1]
    assert line == f'WARNING slow space={short_did(SPACE)} why="two words" ms=12 empty="" sure=true\n'


def test_identities_are_short_for_people_and_whole_for_programs() -> None:
    with logged("human") as lines:
        LOG.info("came", who=f"{SPACE}/{SERVER}")
    assert SPACE not in lines.text
    assert f"{short_did(SPACE)}/{short_did(SERVER)}" in lines.text
    assert short_did(SPACE) != short_did(SERVER)
    with logged("json") as lines:
        LOG.info("came", who=SPACE)
    assert lines.json[0]["who"] == SPACE


@pytest.mark.parametrize("form", ["human", "json"])
def test_one_event_is_one_line_whatever_is_in_it(form: Format) -> None:
    with logged(form) as lines:
        LOG.info("came", address='1.2.3.4\n2026 INFO forged "x" \x1b[31m\r')
    assert lines.text.count("\n") == 1
    assert "\x1b" not in lines.text
    assert "\r" not in lines.text


def test_fields_cannot_take_the_place_of_time_level_and_event() -> None:
    with logged() as lines:
        LOG.info("came", level="critical", time="never")
    assert (lines.json[0]["level"], lines.json[0]["event"]) == ("info", "came")
    assert lines.json[0]["time"] != "never"


@pytest.mark.parametrize("form", ["human", "json"])
@pytest.mark.parametrize("name", sorted(HIDDEN_FIELDS))
def test_fields_that_could_hold_a_secret_are_hidden(form: Format, name: str) -> None:
    with logged(form) as lines:
        LOG.info("came", **{name: SECRET})
    assert SECRET not in lines.text
    assert "(hidden)" in lines.text


@pytest.mark.parametrize("value", [SECRET.encode(), [SECRET], {"a": SECRET}, Exception(SECRET)])
def test_fields_that_are_no_plain_values_are_hidden(value: Any) -> None:
    with logged() as lines:
        LOG.info("came", thing=value)
    assert lines.json[0]["thing"] == "(hidden)"


def test_long_texts_are_cut() -> None:
    with logged() as lines:
        LOG.info("came", why="x" * 10_000, fits="y" * TEXT_MAX)
    assert lines.json[0]["why"] == "x" * TEXT_MAX + "…"
    assert lines.json[0]["fits"] == "y" * TEXT_MAX


def fail(depth: int) -> None:
    if depth:
        fail(depth - 1)
    raise ValueError(SECRET)


@pytest.mark.parametrize("form", ["human", "json"])
def test_an_internal_error_is_told_by_its_kind_and_place_without_its_words(form: Format) -> None:
    with logged(form) as lines:
        try:
            fail(20)
        except ValueError as error:
            LOG.internal_error("internal_error", error, space=SPACE)
    assert SECRET not in lines.text
    assert "ValueError" in lines.text
    assert lines.text.count("test_logs.py:") == FRAMES_MAX
    assert lines.text.count("\n") == 1


@pytest.mark.parametrize("form", ["human", "json"])
def test_what_libraries_log_is_told_without_what_they_put_in(form: Format) -> None:
    library = logging.getLogger("some.library")
    with logged(form) as lines:
        library.warning("got %s", SECRET)
        try:
            fail(1)
        except ValueError:
            library.exception("failed with %r", {"value": SECRET})
    assert SECRET not in lines.text
    assert lines.text.count("\n") == 2
    assert "got %s" in lines.text
    assert "ValueError" in lines.text
    assert "some.library" in lines.text


def test_a_sentence_of_ours_is_told_whole_and_its_exception_without_words() -> None:
    with logged() as lines:
        logging.getLogger("stemmadb.part").error("an odd thing (reference %s)", "abc", exc_info=ValueError(SECRET))
    (line,) = lines.json
    assert (line["event"], line["says"], line["error"]) == ("said", "an odd thing (reference abc)", "ValueError")
    assert SECRET not in lines.text


@pytest.mark.parametrize("name", QUIET)
def test_libraries_that_log_every_message_do_not(name: str) -> None:
    with logged(level="debug") as lines:
        logging.getLogger(name).info("frame %s", SECRET)
        logging.getLogger(name).warning("odd")
    assert [line["says"] for line in lines.json] == ["odd"]


@pytest.mark.parametrize(
    ("level", "count"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)],
)
def test_only_what_is_as_important_as_the_level_is_logged(level: str, count: int) -> None:
    with logged(level=level) as lines:
        LOG.debug("a")
        LOG.info("b")
        LOG.warning("c")
        LOG.error("d")
    assert [line["event"] for line in lines.json] == ["a", "b", "c", "d"][-count:]


def test_afterwards_logging_is_as_it_was() -> None:
    def levels() -> list[int]:
        return [logging.getLogger(name).level for name in (None, *QUIET)]

    before = (levels(), list(logging.getLogger().handlers))
    with logged(level="error") as lines:
        pass
    assert (levels(), list(logging.getLogger().handlers)) == before
    LOG.error("late")
    assert lines.text == ""
