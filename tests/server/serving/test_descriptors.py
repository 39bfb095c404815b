"""Descriptors: connections leave the storage its share, however few there are."""

from __future__ import annotations

import pytest

from stemmadb.server.serving.descriptors import (
    RESERVED_MAX,
    SPACE_DESCRIPTORS,
    ConnectionLimits,
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
