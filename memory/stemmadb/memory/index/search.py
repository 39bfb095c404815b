"""Searching the index: which memories answer, and in which order, at the head or as of any version of main."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import apsw

from stemmadb.memory.index import words
from stemmadb.memory.index.rows import find_namespace_word

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

HEAD: Final = 2**62
"""A version above all others: as of the head."""
NEWEST_ROWS: Final = 20_000
"""Rows that are ranked for a query of nothing but common words."""
COMPARED_MAX: Final = 200_000
"""Vectors that are compared one by one; above it only those of the best matches by words are."""
PRESELECTED: Final = 2_000
COMMON_ROWS_MIN: Final = 2_000
"""With fewer rows no word is too common: ranking all of them takes a few milliseconds, and nothing is left out."""
_FIRST_FACTOR: Final = 4


class Question(NamedTuple):
    """What is looked for. Namespaces are hashes; those that are absent or expired were left out by the caller."""

    namespaces: Sequence[str]
    text: str | None = None
    embedding: bytes | None = None
    """32-bit floats."""
    kinds: Sequence[str] = ()
    """None of them means all."""
    statuses: Sequence[str] = ()
    limit: int = 20
    now: int = 0
    version: int = HEAD


class Hit(NamedTuple):
    """A memory that answers. `score` is None where nothing ranks it."""

    entity: str
    score: float | None


class Hits(NamedTuple):
    hits: Sequence[Hit]
    is_partial: bool = False
    """Whether only some of the rows were ranked, for reasons of cost."""


def present_namespaces(connection: apsw.Connection, question: Question) -> list[str]:
    """Those of the question's namespaces that are there at its version and not expired at its time."""
    marks = ",".join("?" * len(question.namespaces))
    rows = connection.execute(
        f"SELECT nsh FROM namespace WHERE nsh IN ({marks}) AND since<=? AND (until IS NULL OR until>?)"  # noqa: S608
        " AND is_there AND (expires IS NULL OR expires>?)",
        (*question.namespaces, question.version, question.version, question.now),
    )
    return [str(nsh) for (nsh,) in rows]


class IndexSearch:
    """Answers questions on one connection. Not thread-safe: whoever owns the connection calls it."""

    def __init__(self, connection: apsw.Connection, *, common_rows_min: int = COMMON_ROWS_MIN) -> None:
        self._connection = connection
        self._common_rows_min = common_rows_min
        self._shares: dict[str, float] = {}
        self._rows_then = 0

    def search(self, question: Question) -> Hits:
        """Embedding first, then words, then a substring, else pinned and newest first."""
        spaces = [word for nsh in question.namespaces if (word := find_namespace_word(self._connection, nsh))]
        if not spaces:
            return Hits(())
        if question.embedding is not None:
            return self._by_vector(question, spaces)
        if question.text is not None and question.text.strip():
            found = words.words_of(question.text)
            return self._by_words(question, spaces, found) if found else self._by_substring(question, spaces)
        return Hits(self._filled(question, self._newest(spaces)))

    # ------------------------------------------------------------ by words

    def _by_words(self, question: Question, spaces: Sequence[str], found: Sequence[str]) -> Hits:
        chosen = words.chosen(found, self._share)
        if chosen.is_common:
            return Hits(self._by_common_words(question, spaces, chosen.words), is_partial=True)
        expression = words.expression(chosen.words, spaces)
        return Hits(self._filled(question, lambda size, start: self._ranked(expression, size, start)))

    def _ranked(self, expression: str, size: int, start: int) -> list[tuple[int, float]]:
        rows = self._connection.execute(
            "SELECT rowid, -bm25(fts, 0.0, 1.0) AS score FROM fts WHERE fts MATCH ?"
            " ORDER BY score DESC, rowid LIMIT ? OFFSET ?",
            (expression, size, start),
        )
        return [(row, score) for row, score in rows]

    def _by_common_words(self, question: Question, spaces: Sequence[str], found: Sequence[str]) -> list[Hit]:
        """Counts the words in the newest rows: ranking all rows that have them would take seconds."""
        marks = ",".join("?" * len(spaces))
        newest = self._connection.execute(
            f"SELECT row, text FROM doc WHERE ns IN ({marks}) ORDER BY row DESC LIMIT ?",  # noqa: S608
            (*spaces, NEWEST_ROWS),
        )
        scored = []
        for row, text in newest:
            lowered = str(text).lower()
            score = sum(word in lowered for word in found)
            if score:
                scored.append((row, float(score)))
        scored.sort(key=lambda item: (-item[1], -item[0]))
        return self._filled(question, lambda size, start: scored[start : start + size])

    def _share(self, word: str) -> float:
        """Of all rows, how many have the word; counted again once there are a tenth more rows."""
        rows, _ = row_counts(self._connection, ())
        if rows < self._common_rows_min:
            return words.COMMON_SHARE
        if rows > self._rows_then * 1.1 or rows < self._rows_then:
            self._rows_then = rows
            self._shares.clear()
        if word not in self._shares:
            _, counted = row_counts(self._connection, stems_of(self._connection, word))
            self._shares[word] = max(counted.values(), default=0) / max(rows, 1)
        return self._shares[word]

    # ------------------------------------------------------------ by substring, by time

    def _by_substring(self, question: Question, spaces: Sequence[str]) -> Hits:
        """For queries without a word of two letters, such as punctuation or a single sign."""
        assert question.text is not None, "asked by text"
        wanted, marks = question.text.strip().lower(), ",".join("?" * len(spaces))

        def found(size: int, start: int) -> list[tuple[int, float | None]]:
            rows = self._connection.execute(
                f"SELECT row FROM doc WHERE ns IN ({marks}) AND instr(lower(text), ?)"  # noqa: S608
                " ORDER BY created DESC, uuid LIMIT ? OFFSET ?",
                (*spaces, wanted, size, start),
            )
            return [(row, None) for (row,) in rows]

        return Hits(self._filled(question, found))

    def _newest(self, spaces: Sequence[str]) -> Callable[[int, int], list[tuple[int, float | None]]]:
        marks = ",".join("?" * len(spaces))

        def found(size: int, start: int) -> list[tuple[int, float | None]]:
            rows = self._connection.execute(
                f"SELECT row FROM doc WHERE ns IN ({marks}) ORDER BY pin DESC, created DESC, uuid"  # noqa: S608
                " LIMIT ? OFFSET ?",
                (*spaces, size, start),
            )
            return [(row, None) for (row,) in rows]

        return found

    # ------------------------------------------------------------ by vector

    def _by_vector(self, question: Question, spaces: Sequence[str]) -> Hits:
        """Nearest first by cosine; memories without a vector of these dimensions follow by words."""
        assert question.embedding is not None, "asked by embedding"
        import numpy as np  # noqa: PLC0415 - a sixth of the time that a memory server takes to start

        wanted = np.frombuffer(question.embedding, dtype="<f4").astype(np.float64)
        marks, dims = ",".join("?" * len(spaces)), len(wanted)
        ((count,),) = self._connection.execute(
            f"SELECT count(*) FROM vec WHERE ns IN ({marks}) AND dims=?",  # noqa: S608
            (*spaces, dims),
        ).fetchall()
        by_words = self._by_words_only(question, spaces)
        if isinstance(count, int) and count > COMPARED_MAX:
            among = {hit.entity for hit in by_words}
            is_partial = True
        else:
            among, is_partial = None, False
        ranked = sorted(self._similar(wanted, spaces, among), key=lambda item: (-item[1], item[0]))
        alive = self._alive(question, [entity for entity, _ in ranked])
        hits = [Hit(entity, score) for entity, score in ranked if entity in alive][: question.limit]
        known = {hit.entity for hit in hits}
        hits += [hit for hit in by_words if hit.entity not in known]
        return Hits(hits[: question.limit], is_partial)

    def _by_words_only(self, question: Question, spaces: Sequence[str]) -> Sequence[Hit]:
        if question.text is None or not question.text.strip():
            return ()
        found = words.words_of(question.text)
        asked = question._replace(limit=max(question.limit, PRESELECTED))
        return self._by_words(asked, spaces, found).hits if found else self._by_substring(asked, spaces).hits

    def _similar(
        self, wanted: npt.NDArray[np.float64], spaces: Sequence[str], among: set[str] | None
    ) -> Iterator[tuple[str, float]]:
        import numpy as np  # noqa: PLC0415

        marks, length = ",".join("?" * len(spaces)), float(np.linalg.norm(wanted))
        rows = self._connection.execute(
            f"SELECT entity, bytes FROM vec WHERE ns IN ({marks}) AND dims=?",  # noqa: S608
            (*spaces, len(wanted)),
        )
        while batch := [row for _, row in zip(range(10_000), rows, strict=False)]:
            entities = [str(entity) for entity, _ in batch]
            matrix = np.frombuffer(b"".join(bytes(blob) for _, blob in batch), dtype="<f4")
            matrix = matrix.reshape(len(batch), len(wanted)).astype(np.float64)
            lengths = np.linalg.norm(matrix, axis=1) * length
            scores = np.divide(matrix @ wanted, lengths, out=np.zeros(len(batch)), where=lengths > 0)
            for entity, score in zip(entities, scores.tolist(), strict=True):
                if among is None or entity in among:
                    yield entity, score

    def _alive(self, question: Question, entities: Sequence[str]) -> set[str]:
        """Those of the entities that are there at the question's moment and pass its filters."""
        found: set[str] = set()
        for start in range(0, len(entities), 500):
            some = entities[start : start + 500]
            marks = ",".join("?" * len(some))
            rows = self._connection.execute(
                "SELECT v.entity FROM validity v JOIN doc d ON d.row=v.row"  # noqa: S608
                f" WHERE v.entity IN ({marks}) AND {self._filter(question)}",
                (*some, *self._filter_values(question)),
            )
            found |= {str(entity) for (entity,) in rows}
        return found

    # ------------------------------------------------------------ candidates until there are enough

    def _filled(
        self, question: Question, candidates: Callable[[int, int], Sequence[tuple[int, float | None]]]
    ) -> list[Hit]:
        """Takes the best candidates, drops those that do not count at that moment, and goes on until it is full."""
        hits: dict[str, Hit] = {}
        size, start = _FIRST_FACTOR * question.limit, 0
        while True:
            batch = candidates(size, start)
            alive = self._alive_rows(question, [row for row, _ in batch])
            for row, score in batch:
                if row in alive:
                    hits.setdefault(alive[row], Hit(alive[row], score))
            if len(hits) >= question.limit or len(batch) < size:
                return list(hits.values())[: question.limit]
            start, size = start + size, 2 * size

    def _alive_rows(self, question: Question, rows: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for start in range(0, len(rows), 500):
            some = rows[start : start + 500]
            marks = ",".join("?" * len(some))
            alive = self._connection.execute(
                "SELECT d.row, d.entity FROM doc d JOIN validity v ON v.row=d.row"  # noqa: S608
                f" WHERE d.row IN ({marks}) AND {self._filter(question)}",
                (*some, *self._filter_values(question)),
            )
            found.update((row, str(entity)) for row, entity in alive)
        return found

    @staticmethod
    def _filter(question: Question) -> str:
        text = "v.since<=? AND (v.until IS NULL OR v.until>?) AND (d.expires IS NULL OR d.expires>?)"
        if question.kinds:
            text += f" AND d.kind IN ({','.join('?' * len(question.kinds))})"
        if question.statuses:
            text += f" AND d.status IN ({','.join('?' * len(question.statuses))})"
        return text

    @staticmethod
    def _filter_values(question: Question) -> tuple[int | str, ...]:
        return (question.version, question.version, question.now, *question.kinds, *question.statuses)


def stems_of(connection: apsw.Connection, text: str) -> list[str]:
    """The stems of a text's words, as the full-text index stores them."""
    tokenizer = connection.fts5_tokenizer("porter", ["unicode61"])
    found = tokenizer(text.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)
    return [str(stem) for stems in found for stem in stems]


def row_counts(connection: apsw.Connection, stems: Collection[str]) -> tuple[int, dict[str, int]]:
    """How many rows there have been, and how many have each stem."""
    ((rows,),) = connection.execute("SELECT coalesce(max(row), 0) FROM doc").fetchall()
    assert isinstance(rows, int), "a count"
    counts = dict.fromkeys(stems, 0)
    for stem in counts:
        for (doc,) in connection.execute("SELECT doc FROM vocab WHERE term=?", (stem,)):
            assert isinstance(doc, int), "a count"
            counts[stem] = doc
    return rows, counts
