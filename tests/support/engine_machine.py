"""The model-based machine: whatever a user can do to a space, in any order, compared with the model each time."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import tempfile
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import postgres_server
from engine_model import GONE, Model
from engines import ACCESS, Clock, Engine, inline_executors
from snapshots import drop_snapshots
from space import ALICE, BOB, SPACE, counting_salts, delete_, patch_, prefix_, read_, session_of, set_
from stemmadb.protocol import errors
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.admission import Accepted, RefusedCommit, Repeated
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import Erase, OperationIdentity, Strategy
from stemmadb.protocol.model.log.facts import Fact, digest_of
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.base.space_port import Asked
from stemmadb.server.engine.plan import branch_writes, compaction, erasure
from stemmadb.server.engine.plan import merge as merging
from stemmadb.server.engine.plan import undo as undoing
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.engine.plan.undo import RevertWanted
from stemmadb.server.engine.read.reader import Reader
from stemmadb.server.engine.store import Store
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import Storage
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.sqlite import SqliteStorage

T = TypeVar("T")
IDS = ["urn:a:1", "urn:a:2", "urn:b:1"]
PATHS = ["", "/p", "/p/q", "/r", "/list"]
SMALL = Settings(cache_bytes_max=20_000, batch_commits_max=3, snapshots_max=4, ahead_min=1)
"""So that heads are evicted and loaded again all the time."""

chances = st.integers(0, 2**32).map(random.Random)


class EngineMachine(RuleBasedStateMachine):
    """On memory; `SqliteMachine` is the same on files, `PostgresMachine` in a database."""

    def storage(self) -> Storage:
        return self._in_memory

    def __init__(self) -> None:
        super().__init__()
        self._in_memory = MemoryStorage()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.salts = counting_salts()
        self.model = Model()
        self.sent: list[tuple[Proposal, int]] = []
        self.locals: dict[tuple[str, str], int] = {}
        self.operations = 0

    # ------------------------------------------------------------ the engine

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def open(self) -> None:
        store = Store(self.storage(), now=self.clock, salts=self.salts, workers=inline_executors(), settings=SMALL)
        self.engine = Engine(store, self.wait(store.space(SPACE, create=True)), self.clock)
        self.space = self.engine.space
        self.ask = Reader(self.space)

    @initialize()
    def start(self) -> None:
        self.open()
        access = self.engine.propose(set_(SPACE, ACCESS, blind=True), author=SPACE, session="first")
        assert isinstance(self.wait(self.space.decide(access)), Accepted)
        assert self.model.decide(access) == "accepted"

    def teardown(self) -> None:
        history = self.wait(self.space.read(lambda reader: list(reader.history())))
        list(chain.verify(SPACE, history))
        self.wait(self.engine.store.close())
        self.loop.close()

    def asked(self) -> Asked:
        self.operations += 1
        identity = OperationIdentity(ALICE, session_of(f"op{self.operations}"))
        return Asked(identity, digest_of(b"", identity.operation))

    def take(self, version: int | None) -> None:
        """What the engine wrote by itself goes into the model; nothing, if it wrote nothing."""
        if version is not None:
            facts = self.wait(self.space.read(lambda reader: reader.facts([Version(version)])))
            mine = facts.get(Version(version), ())
            self.model.take(version, mine, [_payload(fact) for fact in mine])

    # ------------------------------------------------------------ commits

    @rule(chance=chances)
    def commit(self, chance: random.Random) -> None:
        """Several at once, some stale, some through earlier ones, some blind."""
        batch = [self.proposal(chance) for _ in range(chance.randint(1, 3))]
        self.decide([one for one in batch if one is not None])

    @precondition(lambda self: self.sent)
    @rule(chance=chances)
    def retry(self, chance: random.Random) -> None:
        proposal, version = chance.choice(self.sent)
        outcome = self.wait(self.space.decide(proposal))
        assert isinstance(outcome, Repeated)
        assert outcome.version == version

    def decide(self, batch: list[Proposal]) -> None:
        async def together() -> list[Any]:
            return await asyncio.gather(*map(self.space.decide, batch))

        for proposal, outcome in zip(batch, self.wait(together()), strict=True):
            expected = self.model.decide(proposal)
            assert _verdict(outcome) == expected, (proposal, outcome)
            if isinstance(outcome, Accepted):
                assert outcome.commit.version == self.model.version
                self.sent.append((proposal, self.model.version))

    def proposal(self, chance: random.Random) -> Proposal | None:
        author, session = chance.choice([(ALICE, "s1"), (ALICE, "s2"), (BOB, "s1")])
        key = (author, session)
        local = self.locals.get(key, 0) + 1
        reads = [self.read(chance, local) for _ in range(chance.randint(0, 3))]
        operations = [_operation(chance) for _ in range(chance.randint(1, 3))]
        made = self.engine.propose(
            *operations,
            reads=reads,
            branch=chance.choice([*self.model.forks, "main"]),
            author=author,
            session=session,
            local=local,
        )
        if made.refusal is not None:
            return None
        self.locals[key] = local
        return made

    def read(self, chance: random.Random, local: int) -> Any:
        version = max(0, self.model.version - chance.choice([0, 0, 0, 1, 2, 7]))
        through = [number for number in range(1, local) if chance.random() < 0.2]
        if chance.random() < 0.15:
            return prefix_(chance.choice(["urn:a:", "urn:", ""]), version, through=through)
        branch = chance.choice([None, None, *self.model.forks])
        return read_(chance.choice(IDS), version, chance.choice(PATHS), branch=branch, through=through)

    # ------------------------------------------------------------ branches

    @precondition(lambda self: len(self.model.forks) < 6)
    @rule(chance=chances)
    def fork(self, chance: random.Random) -> None:
        name, parent = f"b{len(self.model.forks)}", chance.choice(list(self.model.forks))
        at = chance.randint(0, self.model.version)
        create = branch_writes.create_branch(
            self.space, self.asked(), name=BranchName(name), parent=BranchName(parent), fork=Version(at)
        )
        if self.model.is_kept(parent, at):
            self.wait(create)
            self.model.create_branch(name, parent, min(at, self.model.deleted.get(parent, at)))
        else:
            assert _refused(self, create) == "compacted"

    @rule(chance=chances)
    def end_branch(self, chance: random.Random) -> None:
        name = chance.choice(list(self.model.forks))
        delete = branch_writes.delete_branch(self.space, self.asked(), name=BranchName(name))
        if name == "main":
            assert _refused(self, delete) == "branch_protected"
        elif name in self.model.deleted:
            assert _refused(self, delete) == "branch_deleted"
        else:
            self.model.version = self.wait(delete).version
            self.model.deleted[name] = self.model.version

    @rule(chance=chances)
    def tag(self, chance: random.Random) -> None:
        name, branch = f"t{chance.randint(0, 3)}", chance.choice(list(self.model.forks))
        if name in self.model.tags:
            done = self.wait(branch_writes.delete_tag(self.space, self.asked(), name=name))
            del self.model.tags[name]
            self.model.version = done.version
            return
        at = chance.randint(0, self.model.version)
        create = branch_writes.create_tag(
            self.space, self.asked(), name=name, branch=BranchName(branch), version=Version(at)
        )
        if self.model.is_kept(branch, at):
            self.model.version = self.wait(create).version
            self.model.tags[name] = (branch, at)
        else:
            assert _refused(self, create) == "compacted"

    @precondition(lambda self: len(self.model.forks) > 1)
    @rule(chance=chances)
    def merge(self, chance: random.Random) -> None:
        """A dry run says what the merge then writes; what it writes is judged by the oracle of merges elsewhere."""
        source, target = chance.sample(list(self.model.forks), 2)
        strategy = chance.choice(get_args(Strategy))
        wanted = MergeWanted(source=BranchName(source), target=BranchName(target), strategy=strategy)
        try:
            predicted = self.wait(merging.merge(self.space, self.asked(), wanted, dry_run=True))
            report = self.wait(merging.merge(self.space, self.asked(), wanted))
        except (errors.MergeConflict, errors.Erased, errors.Compacted):
            return
        except errors.BranchDeleted:
            assert target in self.model.deleted
            return
        assert predicted.writes == report.writes
        assert predicted.conflicts == report.conflicts
        self.take(report.version)
        again = self.wait(merging.merge(self.space, self.asked(), wanted, dry_run=True))
        assert again.writes == ()

    @precondition(lambda self: self.sent)
    @rule(chance=chances)
    def undo(self, chance: random.Random) -> None:
        _, version = chance.choice(self.sent[-4:])
        branch = chance.choice(self.model.live())
        wanted = RevertWanted(branch=BranchName(branch), versions=(Version(version),))
        with contextlib.suppress(errors.Conflict, errors.Erased, errors.Compacted, errors.Malformed):
            self.take(self.wait(undoing.revert(self.space, self.asked(), wanted)).version)

    # ------------------------------------------------------------ what goes

    @rule(chance=chances)
    def erase(self, chance: random.Random) -> None:
        id_ = chance.choice(IDS)
        versions = [entry.version for entry in self.model.log if any(one == id_ for _, one, _ in entry.writes)]
        if not versions:
            return
        chosen = chance.sample(versions, min(len(versions), chance.randint(1, 2)))
        done = self.wait(
            erasure.erase(self.space, self.asked(), {EntityId(id_): [Version(one) for one in chosen]}, {})
        )
        commits = self.wait(self.space.read(lambda reader: reader.commits([done.version])))
        details = commits[done.version].details
        assert isinstance(details, Erase)
        assert set(chosen) <= set(details.versions)
        self.model.erase(id_, details.versions)
        self.take(done.version)

    @rule(chance=chances)
    def compact(self, chance: random.Random) -> None:
        floor = chance.randint(0, self.model.version)
        done = self.wait(compaction.compact(self.space, self.asked(), Version(floor), now=TimeMs(self.clock.now)))
        self.model.version = done.version
        self.model.floor = max(self.model.floor, floor)

    @rule()
    def drop_snapshots(self) -> None:
        self.wait(self.space.in_turn(drop_snapshots))

    @rule()
    def restart(self) -> None:
        self.wait(self.engine.store.close())
        self.open()

    @rule(ms=st.integers(0, 5))
    def time_passes(self, ms: int) -> None:
        self.clock.tick(ms)

    # ------------------------------------------------------------ what must hold

    @invariant()
    def heads_are_what_the_log_folds_to(self) -> None:
        for branch in self.model.forks:
            self.compare(branch, self.model.version)

    @rule(chance=chances)
    def look_back(self, chance: random.Random) -> None:
        self.compare(chance.choice(list(self.model.forks)), chance.randint(0, self.model.version))

    def compare(self, branch: str, version: int) -> None:
        moment = ReadMoment(branch=BranchName(branch), version=Version(version))
        ask = self.ask.get_many([EntityId(id_) for id_ in IDS], moment)
        if not self.model.is_kept(branch, version):
            assert _refused(self, ask) == "compacted"
            return
        got = self.wait(ask)
        found: dict[str, Any] = {id_: entity.value for id_, entity in got.entities.items()}
        found |= dict.fromkeys(got.erased, GONE)
        expected = self.model.at(branch, version)
        assert found == {id_: expected[id_] for id_ in IDS if id_ in expected}, (branch, version)


class Steps:
    """A machine driven by one seed, without Hypothesis: for long runs, and to repeat one of them exactly."""

    def __init__(self, machine: type[EngineMachine], seed: int) -> None:
        self._chance = random.Random(seed)
        self._machine = machine()

    def run(self, count: int) -> None:
        self._machine.start()
        for _ in range(count):
            self._step()
            self._machine.heads_are_what_the_log_folds_to()
        self._machine.teardown()

    def _step(self) -> None:
        it, chance = self._machine, random.Random(self._chance.random())
        seldom = [it.drop_snapshots, it.restart]
        if it.sent:
            seldom += [lambda: it.retry(chance=chance), lambda: it.undo(chance=chance)]
        if len(it.model.forks) < 6:
            seldom.append(lambda: it.fork(chance=chance))
        if len(it.model.forks) > 1:
            seldom += [lambda: it.merge(chance=chance), lambda: it.end_branch(chance=chance)]
        for one in (it.tag, it.erase, it.compact, it.look_back):
            seldom.append(partial(one, chance=chance))
        if chance.random() < 0.5:
            it.commit(chance=chance)
        else:
            chance.choice(seldom)()


class PostgresMachine(EngineMachine):
    def __init__(self) -> None:
        super().__init__()
        self.postgres = PostgresStorage(postgres_server.empty_database())

    def storage(self) -> Storage:
        return self.postgres

    def teardown(self) -> None:
        super().teardown()
        self.postgres.close()


class SqliteMachine(EngineMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="stemmadb-machine-"))

    def storage(self) -> Storage:
        return SqliteStorage(self.directory)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.directory)


def _operation(chance: random.Random) -> Any:
    id_, blind = chance.choice(IDS), chance.random() < 0.7
    kind = chance.choice(["set", "set", "patch", "patch", "patch", "delete"])
    if kind == "set":
        value = {"p": {"q": chance.randint(0, 9)}, "r": chance.randint(0, 9), "list": [1, 2]}
        return set_(id_, value, blind=blind)
    if kind == "delete":
        return delete_(id_, blind=blind)
    number = chance.randint(0, 9)
    change: dict[str, Any] = chance.choice(
        [
            {"op": "replace", "path": "/p/q", "value": number},
            {"op": "replace", "path": "/p", "value": {"q": number}},
            {"op": "increment", "path": "/r", "by": 1},
            {"op": "add", "path": "/list/0", "value": number},
            {"op": "remove", "path": "/list/1"},
            {"op": "test", "path": "/r", "value": 0},
        ]
    )
    return patch_(id_, change, blind=blind)


def _payload(fact: Fact) -> Any:
    return None if fact.body is None else body.read_stored(fact.body)


def _verdict(outcome: object) -> str:
    if isinstance(outcome, RefusedCommit):
        return outcome.error.code
    return "accepted" if isinstance(outcome, Accepted) else "repeated"


def _refused(machine: EngineMachine, coroutine: Coroutine[Any, Any, Any]) -> str:
    try:
        machine.wait(coroutine)
    except StemmaError as error:
        return error.code
    return "done"
