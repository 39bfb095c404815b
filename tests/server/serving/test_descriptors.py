"""Descriptors: connections leave the storage its share, however few there are."""

from __future__ import annotations

import pytest

from stemmadb.server.serving.descriptors import RESERVED_MAX, Places, places

WANTED = Places(10_000, 1_024)


@pytest.mark.parametrize("descriptors", [16, 64, 128, 1_024, 4_096, 20_000])
def test_few_descriptors_are_shared_with_the_storage(descriptors: int) -> None:
    found = places(descriptors, wanted=WANTED)
    assert found.connections + found.spare <= descriptors - min(RESERVED_MAX, descriptors // 2)
    assert found.connections > found.spare > 0


def test_with_many_of_them_all_get_what_they_want() -> None:
    assert places(1_000_000, wanted=WANTED) == WANTED
