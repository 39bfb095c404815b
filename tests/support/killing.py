"""Kill -9 of a process that appends, again and again on one directory, and what must hold after each."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from appender import SESSIONS
from space import ALICE, SPACE, session_of
from stemmadb.protocol.model.log import branch_spans, chain
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Local
from stemmadb.server.engine.base import states
from stemmadb.server.storage.port import LogReader
from stemmadb.server.storage.sqlite import SqliteStorage

APPENDER = Path(__file__).with_name("appender.py")
PATHS = [str(Path(__file__).parent), *sys.path]
Acknowledged = dict[tuple[int, int], int]


def cycle(directory: Path, seed: int, acknowledged: Acknowledged) -> int:
    """Starts an appender, kills it after a random number of acknowledgements, checks; how many there were."""
    chance = random.Random(seed)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, str(APPENDER), str(directory)], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert process.stdout is not None
    with process.stdout as lines:
        heard = _listen(lines, process, chance.randint(1, 400))
    process.wait()
    assert process.returncode == -signal.SIGKILL
    acknowledged.update(heard)
    check(directory, acknowledged)
    return len(heard)


def _listen(lines: IO[str], process: subprocess.Popen[str], count: int) -> Acknowledged:
    """What was printed before the kill, and what was on its way meanwhile; a line torn by the kill was not heard."""
    heard: Acknowledged = {}
    assert lines.readline() == "ready\n"
    for line in lines:
        if not line.endswith("\n"):
            break
        number, local, version = map(int, line.split())
        heard[number, local] = version
        if len(heard) == count:
            process.kill()
    return heard


def check(directory: Path, acknowledged: Acknowledged) -> None:
    """What was acknowledged is there, once, where it was said to be; the chain verifies; states are its fold."""
    storage = SqliteStorage(directory)
    log = storage.open(SPACE)
    with log.reader() as reader:
        history = list(reader.history())
        list(chain.verify(SPACE, history))
        names = [LocalIdentity(ALICE, session_of(f"s{number}"), Local(local)) for number, local in acknowledged]
        found = reader.accepted(names)
        for name, version in zip(names, acknowledged.values(), strict=True):
            assert name in found, f"{name} was acknowledged at {version} and is lost"
            assert found[name].version == version
        _check_states(reader, commits=len(history))
    log.close()
    storage.close()


def _check_states(reader: LogReader, *, commits: int) -> None:
    tip = reader.tip().version
    assert tip == commits
    spans = branch_spans.lineage({MAIN: BranchState(name=MAIN)}, MAIN, tip)
    ids = [EntityId("urn:count"), *(EntityId(f"urn:list:{number}") for number in range(SESSIONS))]
    values = {id_: loaded.value for id_, loaded in states.load(reader, spans, ids).items()}
    assert values.pop(EntityId("urn:count")) == tip - 2, "every commit after the first two counts once"
    for number in range(SESSIONS):
        highest = reader.highest_locals([(ALICE, session_of(f"s{number}"))])[ALICE, session_of(f"s{number}")]
        assert values.get(EntityId(f"urn:list:{number}"), []) == list(range(1, highest + 1))
