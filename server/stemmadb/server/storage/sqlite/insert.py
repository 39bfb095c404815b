"""Inserting many rows with few statements.

Each step of a statement releases the interpreter's lock, and with a busy event loop every time it is taken again can
cost milliseconds. So rows go in by the dozen, in statements of a few fixed sizes that stay prepared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import apsw

from stemmadb.server.storage.sqlite.connection import Cell

_SIZES: Final = (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)


def insert(connection: apsw.Connection, table: str, columns: str, values: Sequence[Cell]) -> None:
    """Inserts rows given one after the other in one flat sequence."""
    width = columns.count(",") + 1
    assert len(values) % width == 0, "a row is not complete"
    start = 0
    for size in _SIZES:
        cells = size * width
        while len(values) - start >= cells:
            connection.execute(_statement(table, columns, size), values[start : start + cells])
            start += cells


@lru_cache(maxsize=64)
def _statement(table: str, columns: str, rows: int) -> str:
    row = "(" + ",".join("?" * (columns.count(",") + 1)) + ")"
    return f'INSERT INTO "{table}" ({columns}) VALUES ' + ",".join([row] * rows)  # noqa: S608  # our own names only
