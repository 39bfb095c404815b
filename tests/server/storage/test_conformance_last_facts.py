"""Every backend: the newest fact of an entity, and the state it leaves, are those of its replay."""

from __future__ import annotations

import pytest

from appends import append_to
from logs import LogMaker
from random_logs import IDS, RandomLog
from space import patch_, set_
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.server.engine.base import states
from stemmadb.server.storage.last_facts import LOOKED_BACK_MAX
from stemmadb.server.storage.port import SpaceLog

NAMES = {Missing.ABSENT: "absent", Missing.ERASED: "erased"}


@pytest.mark.rule("QUERY-10")
@pytest.mark.parametrize("seed", range(20))
def test_last_facts_of_a_random_log_are_those_of_the_replays(log: SpaceLog, seed: int) -> None:
    made = RandomLog(seed, log)
    maker = made.run(12)
    ids = [EntityId(id_) for id_ in (*IDS, "urn:never")]
    settled, open_ = 0, 0
    with log.reader() as reader:
        for name in maker.branches:
            for version in range(maker.version + 1):
                spans = maker.spans(name, version)
                replays, found = reader.replays(spans, ids), reader.last_facts(spans, ids)
                assert found.keys() == replays.keys()
                for id_, replay in replays.items():
                    last, whole = replay.facts[-1], states.fold(replay)
                    assert (found[id_].version, found[id_].index) == (last.version, last.index)
                    assert found[id_].hash == last.hash
                    state = NAMES[whole.value] if isinstance(whole.value, Missing) else "value"
                    assert found[id_].state in (state, None)
                    settled, open_ = settled + (found[id_].state is not None), open_ + (found[id_].state is None)
    assert settled > open_, "it is left open only behind a fork, or many patches"


@pytest.mark.rule("QUERY-10")
def test_behind_many_patches_the_state_is_left_open(log: SpaceLog) -> None:
    maker, id_ = LogMaker(), EntityId("urn:x")
    entries = [maker.commit(set_(id_, {"n": 0}, blind=True))]
    more = {"op": "increment", "path": "/n", "by": 1}
    entries += [maker.commit(patch_(id_, more, blind=True)) for _ in range(LOOKED_BACK_MAX + 6)]
    append_to(log, Version(0), entries)
    with log.reader() as reader:
        for version, state in ((2, "value"), (LOOKED_BACK_MAX, "value"), (maker.version, None)):
            spans = maker.spans("main", version)
            assert reader.last_facts(spans, [id_])[id_].state == state
        assert reader.last_facts(maker.spans(), []) == {}
