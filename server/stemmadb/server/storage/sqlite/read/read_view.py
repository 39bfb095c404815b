"""A read view: one read transaction, through which every question to the file goes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

import apsw

from stemmadb.protocol.model.log import commit_record as commits
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, TimeMs, Version
from stemmadb.server.storage.port import Tip
from stemmadb.server.storage.sqlite.connection import Row, Values, failures, query, roll_back, translated

_TIP: Final = 'SELECT version, hash, time FROM "commit" ORDER BY version DESC LIMIT 1'


class ReadView:
    """All answers are as of the moment it was opened, however the log moves on meanwhile."""

    def __init__(self, connection: apsw.Connection, space: Did) -> None:
        self._connection = connection
        self._is_open = True
        self._streams: set[apsw.Cursor] = set()
        try:
            # The transaction begins with its first question, which is what pins the read view.
            connection.execute("BEGIN")
            last = query(connection, _TIP)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise translated(error, connection) from error
        self.tip = Tip(*last[0]) if last else Tip(EMPTY_SPACE, commits.genesis(space), TimeMs(0))

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        assert self._is_open, "the read view has ended"
        try:
            return query(self._connection, sql, values)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise translated(error, self._connection) from error

    def row(self, sql: str, values: Values = ()) -> Row | None:
        """The first row, or None if there is none."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def stream(self, sql: str, values: Values = ()) -> Generator[Row, None, None]:
        """Rows one at a time, for what may not fit in memory."""
        assert self._is_open, "the read view has ended"
        with failures(self._connection):
            cursor = self._connection.cursor()
            self._streams.add(cursor)
            try:
                for row in cursor.execute(sql, values):
                    yield row
                    assert self._is_open, "the read view has ended"
            finally:
                self._streams.discard(cursor)
                cursor.close(True)

    def time_of(self, version: int) -> TimeMs:
        row = self.row('SELECT time FROM "commit" WHERE version = ?', (version,))
        return TimeMs(row[0]) if row is not None else TimeMs(0)

    def version_at(self, time: TimeMs) -> Version:
        """The last commit at or before a time, by halving: times never fall (COMMIT-7), so they need no index."""
        return self._version_between(time, 0, int(self.tip.version))

    def versions_at(self, times: Sequence[TimeMs]) -> list[Version]:
        """Of many times, which rise: the one in the middle first, which bounds those on both of its sides."""
        found = [Version(0)] * len(times)
        spans = [(0, len(times), 0, int(self.tip.version))] if times else []
        while spans:
            first, end, low, high = spans.pop()
            middle = (first + end) // 2
            found[middle] = self._version_between(times[middle], low, high)
            if first < middle:
                spans.append((first, middle, low, found[middle]))
            if middle + 1 < end:
                spans.append((middle + 1, end, found[middle], high))
        return found

    def _version_between(self, time: TimeMs, low: int, high: int) -> Version:
        """The answer is between the two, both included."""
        while low < high:
            middle = (low + high + 1) // 2
            if self.time_of(middle) <= time:
                low = middle
            else:
                high = middle - 1
        return Version(low)

    def end(self) -> None:
        """Ends the read view; streams that were not read to their end end with it, or they would hold it open."""
        self._is_open = False
        for cursor in list(self._streams):
            cursor.close(True)
        self._streams.clear()
        roll_back(self._connection)
