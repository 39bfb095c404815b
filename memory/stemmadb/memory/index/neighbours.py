"""Which memories are linked to others, at the head or as of any version of main."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from stemmadb.memory.index.rows import find_namespace_word
from stemmadb.memory.index.search import Question, present_namespaces


class IndexedLink(NamedTuple):
    """A link between two memories that are both there: entity ids, and the relation that the newer one stores."""

    newer: str
    rel: str
    older: str


def links_at(connection: apsw.Connection, question: Question, uuids: Sequence[str]) -> list[IndexedLink]:
    """Links from and to these memories inside the question's namespaces, at its version and time."""
    spaces = [
        word for nsh in present_namespaces(connection, question) if (word := find_namespace_word(connection, nsh))
    ]
    found: set[IndexedLink] = set()
    for start in range(0, len(uuids), 500):
        some = uuids[start : start + 500]
        for end in ("newer.uuid", "link.other"):
            found |= _links(connection, question, spaces, end, some)
    return sorted(found)


def _links(
    connection: apsw.Connection, question: Question, spaces: Sequence[str], end: str, uuids: Sequence[str]
) -> set[IndexedLink]:
    both = [_is_there(question, spaces, doc) for doc in ("newer", "older")]
    rows = connection.execute(
        "SELECT newer.entity, link.rel, older.entity FROM link JOIN doc newer ON newer.row=link.row"  # noqa: S608
        " JOIN validity newer_v ON newer_v.row=newer.row JOIN doc older ON older.uuid=link.other"
        " JOIN validity older_v ON older_v.row=older.row"
        f" WHERE {end} IN ({_marks(uuids)}) AND {both[0][0]} AND {both[1][0]}",
        (*uuids, *both[0][1], *both[1][1]),
    )
    return {IndexedLink(str(newer), str(rel), str(older)) for newer, rel, older in rows}


def _is_there(question: Question, spaces: Sequence[str], doc: str) -> tuple[str, tuple[int | str, ...]]:
    text = (
        f"{doc}_v.since<=? AND ({doc}_v.until IS NULL OR {doc}_v.until>?)"
        f" AND ({doc}.expires IS NULL OR {doc}.expires>?)"
        f" AND {doc}.ns IN ({_marks(spaces)}) AND {doc}.kind IN ({_marks(question.kinds)})"
    )
    return text, (question.version, question.version, question.now, *spaces, *question.kinds)


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
