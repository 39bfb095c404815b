"""Which delegations were revoked, on every backend (ACL-4)."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from appends import append_to
from backends import Backend
from logs import LogMaker
from space import SPACE, set_
from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.server.storage.port import SpaceLog
from stemmadb.server.storage.sqlite import SqliteStorage, schema

A, B, C, D = (Hash(bytes([number]) * 32) for number in range(4))


def filled(log: SpaceLog) -> LogMaker:
    """Revokes A at 3, B at 4, and A once more at 6, among other writes."""
    maker = LogMaker()
    entries = [maker.commit(set_("urn:x", 1, blind=True)), maker.create_branch("draft"), maker.revoke(A)]
    entries += [maker.revoke(B), maker.create_tag("revoke"), maker.revoke(A), maker.merge("draft")]
    append_to(log, Version(0), entries)
    return maker


@pytest.mark.rule("ACL-4")
def test_what_was_revoked_is_found_with_the_first_version_that_did(log: SpaceLog) -> None:
    filled(log)
    with log.reader() as reader:
        assert reader.revoked([A, C, B, A]) == {A: 3, B: 4}
        assert reader.revoked([C, D]) == {}
        assert reader.revoked([]) == {}
        assert reader.revoked(iter([B])) == {B: 4}


@pytest.mark.rule("ACL-4")
def test_all_that_was_revoked_can_be_asked_for(log: SpaceLog) -> None:
    with log.reader() as reader:
        assert reader.revoked() == {}
    filled(log)
    with log.reader() as reader:
        assert reader.revoked() == {A: 3, B: 4}


@pytest.mark.rule("ACL-4", "STORE-2")
def test_a_cut_does_not_see_what_is_revoked_later(log: SpaceLog) -> None:
    maker = filled(log)
    with log.reader() as reader:
        append_to(log, Version(7), [maker.revoke(C)])
        assert reader.revoked([A, C]) == reader.revoked([A]) == {A: 3}
        assert reader.revoked() == {A: 3, B: 4}
    with log.reader() as reader:
        assert reader.revoked([C]) == {C: 8}


@pytest.mark.rule("ACL-4", "STORE-3")
def test_what_was_revoked_is_known_to_a_log_that_is_opened_again(backend: Backend) -> None:
    filled(backend.open())
    with backend.reopen().reader() as reader:
        assert reader.revoked([B, C]) == {B: 4}


@pytest.mark.rule("ACL-4", "STORE-5")
def test_a_file_from_before_there_was_an_index_gets_it_when_it_is_opened(tmp_path: Path) -> None:
    backend = SqliteStorage(tmp_path)
    filled(backend.open(SPACE, create=True))
    backend.close()
    older = apsw.Connection(str(tmp_path / "spaces" / SPACE / "space.db"))
    older.execute("DROP INDEX commit_revoked")
    older.pragma("user_version", 1)
    older.close()
    backend = SqliteStorage(tmp_path)
    with backend.open(SPACE).reader() as reader:
        assert reader.revoked([A, C]) == {A: 3}
        assert reader.revoked() == {A: 3, B: 4}
    backend.close()
    assert schema.SCHEMA_VERSION >= 2


@pytest.mark.rule("ACL-4")
def test_a_look_up_costs_the_same_however_long_the_log_is(tmp_path: Path) -> None:
    backend = SqliteStorage(tmp_path)
    log = backend.open(SPACE, create=True)
    maker = filled(log)

    def steps() -> int:
        counted = [0]

        def step() -> bool:
            counted[0] += 1
            return False

        with log.reader() as reader:
            reader.revoked([A, C])
            connection = reader._view._connection
            connection.set_progress_handler(step, 1)
            assert reader.revoked([A, C]) == {A: 3}
            connection.set_progress_handler(None)
        return counted[0]

    few = steps()
    for start in range(7, 407, 100):
        names = range(start, start + 50)
        entries = [maker.commit(set_("urn:x", number, blind=True)) for number in names]
        append_to(log, Version(start), [*entries, *(maker.revoke(number.to_bytes(32, "little")) for number in names)])
    assert steps() <= few + 4
    backend.close()
