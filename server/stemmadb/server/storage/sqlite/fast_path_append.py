"""Fast-path append: one statement begins, checks the tip, inserts all rows, and is durable when it ends.

Each step of a statement releases the GIL and takes it again, and waits for it while the event loop is busy.
A batch of fast-path commits needs it once: its rows are inserted into a view, and a trigger puts each where it
belongs. The view and the trigger belong to the connection; there is nothing of them in the file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import apsw

from stemmadb.server.storage.sqlite.connection import Cell
from stemmadb.server.storage.sqlite.schema import COMMIT_COLUMNS, FACT_COLUMNS

ROWS_MAX: Final = 256
"""More rows than this are not one statement: their text would be too long to be kept prepared."""
BYTES_MAX: Final = 512 * 1024
"""Nor is more than this: SQLite gathers the rows of such a statement first, and beyond 2 MB it does so in a file."""
NO_COMMIT: Final[tuple[Cell, ...]] = (None,) * len(COMMIT_COLUMNS)
"""In the row of every fact but the first of its commit."""

WIDTH: Final = len(COMMIT_COLUMNS) + len(FACT_COLUMNS)
"""Cells of a row: those of a commit, or nothing in their place, and those of a fact."""
CELLS_MAX: Final = ROWS_MAX * WIDTH
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, ROWS_MAX)
_OF_COMMIT: Final = tuple(f"commit_{name}" for name in COMMIT_COLUMNS)
_OF_FACT: Final = tuple(f"fact_{name}" for name in FACT_COLUMNS)


def _new(names: Sequence[str]) -> str:
    return ",".join(f"NEW.{name}" for name in names)


_SET_UP: Final = f"""
CREATE TEMP VIEW appended AS SELECT {",".join(f"NULL AS {name}" for name in _OF_COMMIT + _OF_FACT)};
CREATE TEMP TRIGGER append INSTEAD OF INSERT ON appended WHEN NEW.fact_place IS NOT NULL BEGIN
  SELECT RAISE(ABORT, 'the log has moved')
    WHERE NEW.commit_version <> ifnull((SELECT max(version) FROM "commit"), 0) + 1;
  INSERT INTO "commit" ({",".join(COMMIT_COLUMNS)}) SELECT {_new(_OF_COMMIT)} WHERE NEW.commit_version IS NOT NULL;
  INSERT INTO fact ({",".join(FACT_COLUMNS)}) VALUES ({_new(_OF_FACT)});
END;
"""  # noqa: S608  # our own names only


def set_up(connection: apsw.Connection) -> None:
    connection.execute(_SET_UP)


def append(connection: apsw.Connection, cells: list[Cell]) -> bool:
    """Appends rows of a commit and a fact each; False, and nothing is written, if the log does not end before them.

    No more than `ROWS_MAX`. Rows that fill a statement up are empty, and the trigger lets them pass.
    """
    count = len(cells) // WIDTH
    assert count * WIDTH == len(cells), "a row is not complete"
    size = _SIZES[bisect_left(_SIZES, count)]
    try:
        connection.execute(_statement(size), cells + [None] * ((size - count) * WIDTH))
    except apsw.ConstraintError as refusal:
        if getattr(refusal, "extendedresult", 0) != apsw.SQLITE_CONSTRAINT_TRIGGER:
            raise
        return False
    return True


@lru_cache(maxsize=len(_SIZES))
def _statement(rows: int) -> str:
    row = "(" + ",".join("?" * WIDTH) + ")"
    return "INSERT INTO appended VALUES " + ",".join([row] * rows)  # noqa: S608  # our own text
