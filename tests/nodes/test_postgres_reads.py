"""Read views on PostgreSQL: a bounded life, and history that goes on in views of its own."""

from __future__ import annotations

import pytest

from appends import append_to
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.storage.postgres import PostgresStorage, history

COMMITS = 20


def filled(storage: PostgresStorage) -> LogMaker:
    maker, log = LogMaker(), storage.open(SPACE, create=True)
    append_to(log, Version(0), [maker.commit(set_("urn:x", n, blind=True)) for n in range(COMMITS)])
    log.close()
    return maker


@pytest.mark.rule("STORE-10")
def test_a_question_to_a_read_view_that_is_too_old_fails_with_unavailable(storage: PostgresStorage, url: str) -> None:
    filled(storage)
    short = PostgresStorage(url, read_only=True, read_view_ms_max=0)
    with short.open(SPACE).reader() as reader, pytest.raises(Unavailable, match="read_view_ms_max"):
        reader.branches()
    assert (short.counts.of("read_views_ended"), storage.counts.of("read_views_ended")) == (1, 0)
    short.close()


@pytest.mark.rule("STORE-10")
def test_history_goes_on_page_by_page_after_the_read_view_has_ended(
    storage: PostgresStorage, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page comes from the first read view, and what was appended later is in none."""
    monkeypatch.setattr(history, "COMMITS_IN_PAGE", 3)
    maker = filled(storage)
    before = list(maker.commits)
    short = PostgresStorage(url, read_only=True, read_view_ms_max=0)
    monkeypatch.setattr(history, "_page", _in_a_longer_view(history._page))
    with short.open(SPACE).reader() as reader:
        log = storage.open(SPACE)
        append_to(log, Version(COMMITS), [maker.commit(set_("urn:x", 99, blind=True))])
        assert [commit for commit, _ in reader.history()] == before
    short.close()


def _in_a_longer_view(page: object) -> object:
    def read(view: object, *how: object) -> object:
        view._ends += 60  # type: ignore[attr-defined]
        try:
            return page(view, *how)  # type: ignore[operator]
        finally:
            view._ends -= 60  # type: ignore[attr-defined]

    return read


def test_what_reads_claims_nothing(storage: PostgresStorage, url: str) -> None:
    log = storage.open(SPACE, create=True)
    beside = PostgresStorage(url, read_only=True)
    with beside.open(SPACE).reader() as reader:
        assert reader.tip().version == 0
    append_to(log, Version(0), [LogMaker().commit(set_("urn:x", 1, blind=True))])
    beside.close()
