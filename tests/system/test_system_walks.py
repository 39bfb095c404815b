"""The walks through the running system stay as short as docs/architecture.md says (`python scripts/walks.py`)."""

from __future__ import annotations

import pytest
from scripts import walks

from stemmadb.protocol.model.commit.native import native

GROWTH_MAX = 1.1


@pytest.mark.skipif(native() is None, reason="the figures are those of a server with the extension")
def test_no_walk_is_longer_than_the_page_says() -> None:
    found = walks.measure()
    written = walks.written()
    assert written.keys() == found.keys()
    for name, turns in found.items():
        measured, limit = walks.figures(turns).calls, written[name].calls * GROWTH_MAX
        assert measured > 50, f"{name}: the tracer saw almost nothing"
        assert measured <= limit, f"{name}: {measured} calls; python scripts/walks.py --show '{name}' lists them"
