"""An export of a database reads page by page, in later read views too, and says if something went meanwhile."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from appends import append_to
from kept_spaces import fill
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.errors import Unavailable
from stemmadb.protocol.model.values.ids import EMPTY_SPACE
from stemmadb.server.maintenance.export import export
from stemmadb.server.storage.port import AcceptedWrite, SpaceLog
from stemmadb.server.storage.postgres import PostgresStorage, history
from stemmadb.server.storage.postgres.read_view import PostgresView


@pytest.fixture
def log(storage: PostgresStorage) -> Iterator[SpaceLog]:
    made = storage.open(SPACE, create=True)
    yield made
    made.close()


@pytest.fixture
def old_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page comes from a read view of its own."""
    monkeypatch.setattr(history, "COMMITS_IN_PAGE", 2)
    monkeypatch.setattr(PostgresView, "is_young", property(lambda _: False))


@pytest.mark.rule("STORE-10", "KEEP-3")
def test_an_export_over_many_read_views_is_the_same(log: SpaceLog, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log)
    whole, paged = io.BytesIO(), io.BytesIO()
    export(log, whole.write)
    monkeypatch.setattr(history, "COMMITS_IN_PAGE", 2)
    monkeypatch.setattr(PostgresView, "is_young", property(lambda _: False))
    export(log, paged.write)
    assert paged.getvalue() == whole.getvalue()


@pytest.mark.rule("STORE-10", "KEEP-3")
@pytest.mark.usefixtures("old_views")
def test_an_export_during_an_erasure_is_given_up_and_a_later_one_is_whole(log: SpaceLog) -> None:
    maker = LogMaker()
    append_to(log, EMPTY_SPACE, [maker.commit(set_("urn:x", n, blind=True)) for n in range(6)])
    erased: list[AcceptedWrite] = []

    def write(_: bytes) -> None:
        if not erased:
            erased.append(maker.erase("urn:x", [5]))
            append_to(log, maker.commits[-2].version, erased)

    with pytest.raises(Unavailable, match="meanwhile"):
        export(log, write)
    assert export(log, lambda _: None).version == 7
