"""A turn that a peer breaks off is said and tried again, with clients of its own."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.harness import retries
from benchmarks.harness.retries import TRIES, retried
from benchmarks.load.websocket import Gone
from benchmarks.scenarios import past_read


def broken(times: int, error: Exception) -> Any:
    left = [times]

    def turn() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return "measured"

    return turn


@pytest.mark.parametrize("error", [ConnectionError("ended a call"), Gone("closed"), TimeoutError()])
def test_a_turn_that_was_broken_off_is_said_and_tried_again(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses = list[float]()
    assert retried("etcd", broken(TRIES - 1, error), pauses.append) == "measured"
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(pauses) == TRIES - 1
    assert all("etcd broke off a turn" in line and (str(error) or "TimeoutError") in line for line in said)
    with pytest.raises(type(error)):
        retried("etcd", broken(TRIES, error), pauses.append)


def test_a_wrong_answer_is_not_tried_again() -> None:
    with pytest.raises(AssertionError):
        retried("etcd", broken(1, AssertionError("another value")))


class Link:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Reader:
    def __init__(self) -> None:
        self.link = Link()


def test_readers_of_the_past_are_made_anew_after_a_broken_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    made, broken_off = list[Reader](), list[bool]([True, False, False])

    def readers(_: object, *, patches: bool) -> list[Reader]:
        made.append(Reader())
        return made[-1:]

    def closed_loop(clients: list[Reader], **_: object) -> str:
        assert not clients[0].link.is_closed
        if broken_off.pop(0):
            raise ConnectionError("the peer ended a call")
        return "measured"

    class System:
        name, pids = "etcd", ()

    monkeypatch.setattr(past_read, "readers", readers)
    monkeypatch.setattr(past_read, "closed_loop", closed_loop)
    monkeypatch.setattr(retries, "PAUSE_SECONDS", 0.0)
    side: Any = past_read.Side(System())  # type: ignore[arg-type]  # what it needs of one
    assert [side.measured(1.0), side.measured(1.0)] == ["measured", "measured"]
    assert [one.link.is_closed for one in made] == [True, False]
    side.close()
    assert made[1].link.is_closed
