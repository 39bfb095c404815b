"""Hypothesis strategies for JSON values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stemmadb.protocol.model.values.json_values import INT_MAX, INT_MIN

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(INT_MIN, INT_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(children, max_size=4) | st.dictionaries(text, children, max_size=4)


values = st.recursive(scalars, containers, max_leaves=12)
