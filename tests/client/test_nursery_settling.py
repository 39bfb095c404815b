"""What a verdict means for the commits built on the one it accepts, on the pure object."""

from __future__ import annotations

import pytest

from nursery_hands import adding, hand, setting
from space import delete_, patch_, set_

A, B, C = "urn:a", "urn:b", "urn:c"


@pytest.mark.rule("NURSERY-1")
def test_what_was_skipped_for_one_below_is_shown_when_that_one_is_accepted_though_nothing_beneath_it_changed() -> (
    None
):
    one = hand("urn:", set_(A, {"n": 1}), set_(C, 0))
    bottom = one.write(adding(A, 10))
    above = one.write(setting(C, 9, blind=True), reads=[A])
    one.other(delete_(A))
    one.deliver()
    assert (one.value(C), one.hidden()) == (0, [bottom, above])
    one.other(set_(A, {"n": 5}))
    assert [each.pending.name for each in one.tell(bottom).confirmed] == [bottom]
    assert (one.value(A), one.value(C), one.hidden()) == ({"n": 15}, 9, [])


@pytest.mark.rule("NURSERY-1")
def test_what_is_shown_stays_shown_when_one_below_is_accepted() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, {"n": 1}))
    bottom = one.write(adding(A, 10))
    above = one.write(setting(B, {"n": 9}, blind=True), reads=[A])
    one.tell(bottom)
    assert (one.value(A), one.value(B), one.hidden()) == ({"n": 11}, {"n": 9}, [])
    assert one.pending() == [above]


@pytest.mark.rule("NURSERY-1")
def test_what_is_shown_is_skipped_when_the_frame_that_accepts_one_below_takes_away_what_it_lies_on() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, {"n": 1}))
    bottom = one.write(adding(A, 10))
    above = one.write(adding(B, 10), reads=[A])
    one.other(patch_(B, {"op": "remove", "path": "/n"}))
    one.tell(bottom)
    assert (one.value(A), one.value(B), one.hidden()) == ({"n": 11}, {}, [above])
