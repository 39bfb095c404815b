"""Descriptors: connections leave the storage its share, however few there are."""

from __future__ import annotations

import pytest

from stemmadb.protocol.errors import Unavailable
from stemmadb.server.serving.descriptors import (
    RESERVED_MAX,
    SPACE_DESCRIPTORS,
    ConnectionLimits,
    check_workers,
    connection_limits,
    open_spaces,
)

WANTED = ConnectionLimits(10_000, 1_024)


@pytest.mark.parametrize("descriptors", [16, 64, 128, 1_024, 4_096, 20_000])
def test_few_descriptors_are_shared_with_the_storage(descriptors: int) -> None:
    found = connection_limits(descriptors, wanted=WANTED)
    assert found.connections + found.spare <= descriptors - min(RESERVED_MAX, descriptors // 2)
    assert found.connections > found.spare > 0


def test_with_many_of_them_all_get_what_they_want() -> None:
    assert connection_limits(1_000_000, wanted=WANTED) == WANTED


@pytest.mark.rule("STORE-7")
@pytest.mark.parametrize("descriptors", [16, 256, 1_024, 20_000])
def test_open_spaces_fit_the_share_of_the_storage(descriptors: int) -> None:
    found = open_spaces(descriptors, wanted=256)
    assert found == 1 or found * SPACE_DESCRIPTORS <= descriptors // 2
    assert open_spaces(1_000_000, wanted=256) == 256


def test_more_workers_than_descriptors_allow_are_refused_with_a_number_that_works() -> None:
    check_workers(1_024, 200)
    with pytest.raises(Unavailable, match=r"than the 60 .* Start with --workers 7, or raise the limit") as refused:
        check_workers(60, 16)
    assert "16 workers" in str(refused.value)
    check_workers(60, 7)
