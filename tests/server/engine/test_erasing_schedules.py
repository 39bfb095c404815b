"""Erasure after random work with branches, merges, reverts and snapshots: nothing of it is left, all else is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from asking import asked
from destroying import Work, all_bytes, all_states, bytes_of_files, snapshot_everything, verified
from engines import engine
from stemmadb.protocol.model.log.commit_record import Erase
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.engine.plan import erasure
from stemmadb.server.storage.port import LogReader
from stemmadb.server.storage.sqlite import SqliteStorage

STEPS = 30


def chosen(work: Work, seed: int) -> tuple[EntityId, list[Version], set[str]]:
    """An entity, some of the versions a client wrote it at, and what only those held."""
    chance = random.Random(seed)
    id_ = chance.choice(sorted({id_ for id_, _ in work.marks}))
    versions = sorted(version for other, version in work.marks if other == id_)
    picked = chance.sample(versions, min(len(versions), chance.randint(1, 2)))
    marks = set().union(*(work.marks[id_, version] for version in picked))
    for (other, version), held in work.marks.items():  # a commit of two entities: the other one keeps its own
        if other != id_ and version in picked:
            marks -= {one for one in held if one not in work.marks[id_, version]}
    return EntityId(id_), [Version(version) for version in picked], marks


@pytest.mark.rule("ERASE-1")
@pytest.mark.parametrize("seed", range(60))
async def test_no_copy_of_what_was_erased_is_left_and_whatever_else_could_be_read_still_can(seed: int) -> None:
    async with engine() as it:
        work = Work(it, seed)
        await work.begin()
        await work.run(STEPS)
        await snapshot_everything(it)
        id_, versions, marks = chosen(work, seed)
        facts, before, head = await verified(it), await all_states(it), it.space.version
        done = await erasure.erase(it.space, asked("erase"), {id_: versions}, {})
        left = await all_bytes(it)
        assert not [mark for mark in marks if mark.encode() in left]
        assert done.version == it.space.version == head + 1
        assert await verified(it) >= facts
        after = await all_states(it)
        for place, value in before.items():
            assert after[place] == value or (after[place] is Missing.ERASED and place[2] == id_), place
        for name in work.live:
            assert after.get((name, done.version, id_)) is not Missing.ERASED
            for other in {place[2] for place in before} - {id_}:
                assert after.get((name, done.version, other)) == before.get((name, head, other))


@pytest.mark.rule("ERASE-1")
@pytest.mark.parametrize("seed", range(100, 106))
async def test_no_file_of_the_data_directory_holds_what_was_erased(seed: int, tmp_path: Path) -> None:
    async with engine(SqliteStorage(tmp_path)) as it:
        work = Work(it, seed)
        await work.begin()
        await work.run(STEPS)
        await snapshot_everything(it)
        id_, versions, marks = chosen(work, seed)
        found = bytes_of_files(tmp_path)
        assert all(mark.encode() in found for mark in marks), "the scan finds what is there"
        await erasure.erase(it.space, asked("erase"), {id_: versions}, {})
        found = bytes_of_files(tmp_path)
        assert not [mark for mark in marks if mark.encode() in found]
        await verified(it)


async def test_the_schedules_make_copies_of_every_kind() -> None:
    copies = set()
    for seed in range(60):
        async with engine() as it:
            work = Work(it, seed)
            await work.begin()
            await work.run(STEPS)
            id_, versions, _ = chosen(work, seed)
            done = await erasure.erase(it.space, asked("erase"), {id_: versions}, {})

            def ask(reader: LogReader, at: Version = done.version) -> set[tuple[str, str]]:
                listed = reader.commits([at])[at].details
                assert isinstance(listed, Erase)
                records, facts = reader.commits(listed.versions), reader.facts(listed.versions)
                return {(records[v].kind, fact.kind) for v in listed.versions for fact in facts[v]}

            copies |= await it.space.read(ask)
    assert {("merge", "set"), ("merge", "patch"), ("revert", "set"), ("revert", "patch")} <= copies
