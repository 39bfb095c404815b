"""Numbers of places, and the exact end of a prefix of ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appends import append_to
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import MAIN, Version
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import FactPosition
from stemmadb.server.storage.sqlite import SqliteStorage

# Few letters, so that prefixes meet: the ends of the planes, of the surrogates and of each length in UTF-8.
LETTERS = st.sampled_from("ab\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010fffe\U0010ffff")
TEXTS = st.text(LETTERS, max_size=4)
PLACES = st.builds(
    FactPosition, st.integers(0, positions.VERSION_MAX).map(Version), st.integers(0, positions.INDEX_MAX)
)


@given(PLACES, PLACES)
def test_numbers_sort_as_places_do_and_lead_back_to_them(one: FactPosition, other: FactPosition) -> None:
    assert (positions.number_of(one) < positions.number_of(other)) is (one < other)
    assert positions.place_of(positions.number_of(one)) == one
    assert positions.number_of(one) < 1 << 63


def test_an_index_beyond_the_bits_kept_for_it_is_an_internal_error() -> None:
    with pytest.raises(AssertionError, match="at most"):
        positions.number(1, positions.INDEX_MAX + 1)


def test_the_bounds_of_a_span_hold_its_versions_and_no_others() -> None:
    low, high = positions.bounds(Span(MAIN, Version(3), Version(5)))
    assert (positions.place_of(low), positions.place_of(high)) == (
        FactPosition(Version(4), 0),
        FactPosition(Version(5), positions.INDEX_MAX),
    )
    assert positions.bounds(Span(MAIN, Version(3), Version(1 << 63)))[1] == (1 << 63) - 1


@given(TEXTS, TEXTS)
def test_the_upper_bound_of_a_prefix_parts_the_ids_under_it_from_all_others(prefix: str, text: str) -> None:
    end = positions.upper_bound(prefix)
    is_below = isinstance(end, bytes) or text.encode() < end.encode()
    assert (prefix.encode() <= text.encode() and is_below) is text.startswith(prefix)


def test_ids_with_the_last_code_points_are_listed_under_their_prefix(tmp_path: Path) -> None:
    ids = ["urn:a", "urn:a\U0010fffd", "urn:a\U0010fffd\U0010fffdz", "urn:b", "urn:\ud7ff", "urn:\ue000"]
    storage, maker = SqliteStorage(tmp_path), LogMaker()
    log = storage.open(SPACE, create=True)
    append_to(log, Version(0), [maker.commit(*[set_(id_, 1, blind=True) for id_ in ids])])
    with log.reader() as reader:
        for prefix in ("urn:a", "urn:a\U0010fffd", "urn:\ud7ff", "", "urn:"):
            assert reader.ids(prefix, None, 100) == sorted(id_ for id_ in ids if id_.startswith(prefix))
    storage.close()
