"""A plugin for pytest: tests run on the compiled modules, where they were built (`make tests-compiled`)."""

from __future__ import annotations

import pytest

from stemmadb.server import compiled

if not compiled.use():
    pytest.exit("the compiled modules were not built, or not of these sources", returncode=3)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Some tests put something else in the place of a part, which compiled code does not look up."""
    for item in items:
        if item.get_closest_marker("in_python"):
            item.add_marker(pytest.mark.skip(reason="it changes modules"))
