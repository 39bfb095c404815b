"""SQLite alone: the rows that the engine wrote, inserted again in the same transactions by `executemany`."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from benchmarks.load.document import VALUE
from benchmarks.load.figures import Figures, Stopwatch
from benchmarks.load.processes import DIRECTORY
from benchmarks.ours import engine
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.server.storage.sqlite import schema

PRAGMAS = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=4000")
INTERNED = ("entity", "principal", "session")


def again(source: Path, *, transactions: int, commits_each: int) -> Figures:
    """The last commits of a space, on top of all before them, so many to a transaction."""
    old = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    first = old.execute('SELECT max(version) FROM "commit"').get - transactions * commits_each
    starts = [first + at * commits_each for at in range(transactions)]
    groups = [list(_rows(old, start, start + commits_each)) for start in starts]
    with tempfile.TemporaryDirectory(prefix="sqlite-bench-", dir=DIRECTORY) as name:
        new = apsw.Connection(str(Path(name) / "raw.db"))
        for statement in PRAGMAS:
            new.execute(statement).fetchall()
        schema.migrate(new, 0, engine.SPACE)
        _copy(old, new, upto=first)
        found = _timed(new, groups, commits_each)
        new.close()
    old.close()
    return found


def one_by_one(directory: Path, *, commits: int) -> Figures:
    """The rows of commits of one document each, a transaction for each."""
    asyncio.run(_record(directory, commits))
    (source,) = directory.rglob("space.db")
    return again(source, transactions=commits, commits_each=1)


async def _record(directory: Path, commits: int) -> None:
    async with engine.opened(directory) as load:
        made = (
            Operation(op="set", id=EntityId(f"urn:todo:{n % 32}"), body=VALUE, blind=True) for n in range(commits)
        )
        await load.all([load.proposal([operation]) for operation in made])


def _timed(new: apsw.Connection, groups: Sequence[list[tuple[str, list[Any]]]], commits_each: int) -> Figures:
    """By commit; how long one took is how long its transaction took."""
    latencies: list[float] = []
    watch = Stopwatch(None)
    for group in groups:
        began = time.perf_counter()
        _insert(new, group)
        latencies += [time.perf_counter() - began] * commits_each
    return watch.figures(latencies)


def _rows(old: apsw.Connection, after: int, upto: int) -> Iterator[tuple[str, list[Any]]]:
    commits = old.execute('SELECT * FROM "commit" WHERE version > ? AND version <= ?', (after, upto))
    yield '"commit"', commits.fetchall()
    places = ((after + 1) << 20, ((upto + 1) << 20) - 1)
    yield "fact", old.execute("SELECT * FROM fact WHERE place BETWEEN ? AND ?", places).fetchall()


def _insert(new: apsw.Connection, group: list[tuple[str, list[Any]]]) -> None:
    new.execute("BEGIN IMMEDIATE")
    for table, rows in group:
        if rows:
            new.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)  # noqa: S608
    new.execute("COMMIT")


def _copy(old: apsw.Connection, new: apsw.Connection, *, upto: int) -> None:
    for table in INTERNED:
        _insert(new, [(table, old.execute(f"SELECT * FROM {table}").fetchall())])  # noqa: S608
    _insert(new, list(_rows(old, 0, upto)))
