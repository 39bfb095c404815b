"""Random logs, written to a backend as they are made; a seed reproduces one exactly."""

from __future__ import annotations

import random

from appends import append_to
from logs import LogMaker
from space import ALICE, BOB, delete_, patch_, set_
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState, Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.storage.port import AcceptedWrite, Snapshot, SpaceLog

# Their order differs by UTF-16 and by bytes, and some look like patterns to a careless query.
IDS = ["urn:a:1", "urn:a:2", "urn:A:1", "urn:a%", "urn:a_b", "urn:é", "urn:\uffee", "urn:\U0001f600"]
PREFIXES = [
    "",
    "u",
    "urn:a",
    "urn:a:",
    "urn:a:1",
    "urn:a%",
    "urn:a_",
    "urn:A",
    "urn:\u00e9",
    "urn:\uffee",
    "x",
    "urn:\U0010fffd",
]
SESSIONS = [(ALICE, "s1"), (ALICE, "s2"), (BOB, "s3")]
KINDS = {
    "commit": 60,
    "create_branch": 8,
    "delete_branch": 3,
    "create_tag": 4,
    "delete_tag": 2,
    "merge": 6,
    "erase": 5,
    "compact": 4,
    "revoke": 2,
}


class RandomLog:
    """Appends batches of random entries to a log, some with snapshots; `maker` knows what the log must hold."""

    def __init__(self, seed: int, log: SpaceLog) -> None:
        self.random = random.Random(seed)
        self.maker = LogMaker()
        self.log = log

    def run(self, rounds: int) -> LogMaker:
        for _ in range(rounds):
            self.append()
        return self.maker

    def append(self) -> list[AcceptedWrite]:
        """One batch, and then perhaps snapshots of anything that is there."""
        expected = self.maker.version
        batch = [self.entry() for _ in range(self.random.randint(1, 4))]
        destroys = any(entry.destroyed for entry in batch)
        append_to(self.log, expected, batch, [] if destroys else self.snapshots(self.maker.facts[-4:]))
        if self.random.random() < 0.3:
            self.log.store_snapshots(self.snapshots(self.maker.facts))
        return batch

    def snapshots(self, facts: list[Fact]) -> list[Snapshot]:
        taken = [self.maker.snapshot(fact) for fact in facts if self.random.random() < 0.2]
        return [snapshot for snapshot in taken if snapshot is not None]

    # ------------------------------------------------------------ entries

    def entry(self) -> AcceptedWrite:
        self.maker.now += self.random.choice([0, 0, 1, 5, -3])
        self.maker.author = self.random.choice([ALICE, BOB])
        (kind,) = self.random.choices(list(KINDS), list(KINDS.values()))
        made: AcceptedWrite | None = getattr(self, f"_{kind}")()
        return made or self._commit()

    def _commit(self) -> AcceptedWrite:
        author, session = self.random.choice(SESSIONS)
        on = self.random.choice(self._live()).name
        values = {id_: self.maker.value(self.maker.spans(on), id_) for id_ in IDS}
        operations = [self._operation(values) for _ in range(self.random.randint(1, 3))]
        note = encode([f"why {self.maker.version}", None]) if self.random.random() < 0.3 else None
        return self.maker.commit(*operations, branch=on, author=author, session=session, note=note)

    def _operation(self, values: dict[str, Value | Missing]) -> Operation:
        """One that admission lets pass; `values` are those before it, and are marked by it."""
        id_ = self.random.choice(IDS)
        number = self.random.randint(0, 99)
        alive = not isinstance(values[id_], Missing)
        kind = self.random.choice(["set", "patch", "patch", "patch", "patch", "delete"]) if alive else "set"
        if kind == "set":
            values[id_] = number
            return set_(id_, {"n": number, "list": [number]}, blind=True)
        if kind == "delete":
            values[id_] = Missing.ABSENT
            return delete_(id_, blind=True)
        changes = [{"op": "increment", "path": "/n", "by": number}, {"op": "add", "path": "/list/0", "value": number}]
        return patch_(id_, self.random.choice(changes), blind=True)

    def _create_branch(self) -> AcceptedWrite:
        parent = self.random.choice(sorted(self.maker.branches))
        fork = self.random.randint(self.maker.floor, self.maker.version)
        return self.maker.create_branch(f"b{len(self.maker.branches)}", parent, fork)

    def _delete_branch(self) -> AcceptedWrite | None:
        live = [state for state in self._live() if state.parent is not None]
        return self.maker.delete_branch(self.random.choice(live).name) if live else None

    def _create_tag(self) -> AcceptedWrite | None:
        name = f"v{self.random.randint(1, 4)}"
        if name in self.maker.tags:
            return None
        on = self.random.choice(sorted(self.maker.branches))
        return self.maker.create_tag(name, on, self.random.randint(self.maker.floor, self.maker.version))

    def _delete_tag(self) -> AcceptedWrite | None:
        tags = sorted(self.maker.tags)
        return self.maker.delete_tag(self.random.choice(tags)) if tags else None

    def _merge(self) -> AcceptedWrite:
        source = self.random.choice(sorted(self.maker.branches))
        target = self.random.choice(self._live()).name
        return self.maker.merge(source, target, self.random.sample(IDS, 2))

    def _erase(self) -> AcceptedWrite | None:
        id_ = self.random.choice(IDS)
        versions = sorted({fact.version for fact in self.maker.facts if fact.id == id_ and fact.body is not None})
        if not versions:
            return None
        chosen = self.random.sample(versions, self.random.randint(1, min(3, len(versions))))
        survivors: list[Value | Missing] = [Missing.ABSENT, {"n": 0, "list": []}]
        return self.maker.erase(id_, chosen, survivor=self.random.choice(survivors))

    def _compact(self) -> AcceptedWrite:
        floor = self.random.randint(self.maker.floor, self.maker.version)
        pairs = [(state.name, id_) for state in self._live() for id_ in IDS if self._has_value(state.name, id_)]
        chosen = self.random.sample(pairs, min(len(pairs), self.random.randint(0, 4)))
        return self.maker.compact(floor, checkpoints=chosen)

    def _revoke(self) -> AcceptedWrite:
        return self.maker.revoke(self.random.randbytes(32))

    def _live(self) -> list[BranchState]:
        return [state for _, state in sorted(self.maker.branches.items()) if state.deleted is None]

    def _has_value(self, name: BranchName, id_: str) -> bool:
        return not isinstance(self.maker.value(self.maker.spans(name), id_), Missing)


def readable(maker: LogMaker) -> list[tuple[BranchName, Version]]:
    """Every moment that can be read: at or above the floor on each branch, and those the tags keep (COMPACT-1)."""
    above = [(name, Version(at)) for name in maker.branches for at in range(maker.floor, maker.version + 1)]
    return above + [(tag.branch, tag.version) for tag in maker.tags.values()]
