"""Drafts for tests: a view by obvious code, plans on their way to admission, and random transactions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from space import MemorySpace, session_of
from stemmadb.client.drafting import MISSING, TransactionDraft
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, CachedEntity, CommitName, Nothing
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite, PlannedRead
from stemmadb.client.nursery.shown import Shown, ShownLayer, ShownLayers
from stemmadb.protocol.errors import PatchFailed, StemmaError
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.admission import Outcome
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.log.state import Missing as Gone
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS

SESSION = session_of("s")
NO_HASH = Hash(bytes(32))
FIVE = Version(5)


def name(local: int) -> CommitName:
    return CommitName(SESSION, Local(local))


def held(value: Any, version: int = 1, *, as_of: int | None = None) -> CachedEntity:
    return CachedEntity(value, Version(version), NO_HASH, None if as_of is None else Version(as_of))


@dataclass
class PlainView:
    """Confirmed entities, prefixes that are watched whole, and pending commits as lists of writes."""

    to: Version = FIVE
    branch: BranchName = MAIN
    confirmed: dict[str, CachedEntity] = field(default_factory=dict)
    covered: tuple[str, ...] = ()
    pending: list[tuple[CommitName, Sequence[CommitWrite]]] = field(default_factory=list)

    def shown(self, id_: EntityId) -> Shown | None:
        one = self.confirmed.get(id_)
        if one is not None:
            return self._on_top(id_, one.value, self.to if one.as_of is None else one.as_of)
        if id_.startswith(self.covered):
            return self._on_top(id_, ABSENT, self.to)
        shown = self._on_top(id_, UNKNOWN, self.to)
        return shown if shown.layers else None

    def listing(self, prefix: str) -> dict[EntityId, Shown] | None:
        if not prefix.startswith(self.covered):
            return None
        ids = {*self.confirmed, *(write.id for _, writes in self.pending for write in writes)}
        found = {EntityId(id_): self.shown(EntityId(id_)) for id_ in ids if id_.startswith(prefix)}
        return {id_: shown for id_, shown in found.items() if shown is not None and shown.value is not ABSENT}

    def layers_under(self, prefix: str) -> dict[EntityId, ShownLayers]:
        ids = {write.id for _, writes in self.pending for write in writes if write.id.startswith(prefix)}
        found = {id_: self.shown(id_) for id_ in sorted(ids)}
        return {id_: shown.layers for id_, shown in found.items() if shown is not None and shown.layers}

    def replayed(self, id_: EntityId, base: Value | Nothing) -> Shown:
        return self._on_top(id_, base, self.to)

    def _on_top(self, id_: EntityId, value: Value | Nothing, basis: Version) -> Shown:
        layers = []
        for commit, writes in self.pending:
            own = [write for write in writes if write.id == id_]
            if not own or (after := after_all(value, own)) is None:
                continue
            value = after[0]
            whole = any(write.paths is None for write in own)
            paths = None if whole else tuple(path for write in own for path in write.paths or ())
            layers.append(ShownLayer(commit, paths, value))
        return Shown(value, basis, ShownLayers.of(layers))


def after_all(value: Value | Nothing, writes: Iterable[CommitWrite]) -> tuple[Value | Nothing] | None:
    """The value after the writes, in a tuple of its own; None if one of them cannot be done."""
    for write in writes:
        if write.op == "set":
            value = write.value
        elif value is ABSENT:
            return None
        elif write.op == "delete":
            value = ABSENT
        elif not isinstance(value, Nothing):
            try:
                value = patch.apply(value, write.value)  # type: ignore[arg-type]
            except PatchFailed:
                return None
    return (value,)


# ---------------------------------------------------------------- a plan on its way to admission


def operation(write: CommitWrite) -> Operation:
    return Operation(op=write.op, id=write.id, body=write.body, blind=write.blind)


def read(planned: PlannedRead) -> Read:
    locals_ = tuple(one.local for one in planned.through)
    return Read(version=planned.version, id=planned.id, prefix=planned.prefix, path=planned.path, locals=locals_)


def submit(space: MemorySpace, plan: CommitPlan, local: int) -> Outcome:
    """What admission says to the plan; `prepare` raises `Undeclared` if a read is missing."""
    reads = [read(one) for one in plan.reads]
    operations = [operation(write) for write in plan.writes]
    return space.commit(*operations, reads=reads, note=plan.note, session="s", local=local, branch=plan.branch)


def value_at(space: MemorySpace, id_: str, version: int) -> CachedEntity:
    """What a server says about an entity as of a version."""
    state = space.entity_at(MAIN, EntityId(id_), version)
    value: Any = ABSENT if isinstance(state.value, Gone) else state.value
    return CachedEntity(value, state.version, state.hash, Version(version))


def overlaps(planned: PlannedRead, id_: str, paths: Sequence[str] | None) -> bool:
    """Whether a later fact that writes these paths (None is all) overlaps the read, by the letter of COMMIT-2."""
    if planned.prefix is not None:
        return id_.startswith(planned.prefix)
    return id_ == planned.id and (paths is None or any(pointer.overlaps(path, planned.path) for path in paths))


# ---------------------------------------------------------------- random transactions

IDS = ("urn:a:1", "urn:a:2", "urn:a:3", "urn:b:1", "urn:b:2")
PREFIXES = ("urn:a:", "urn:b:", "urn:a:1")
PATHS = ("", "/a", "/a/b", "/n", "/list", "/list/0", "/new")


def random_value(source: random.Random) -> dict[str, Any]:
    value: dict[str, Any] = {"a": {"b": source.randint(0, 9)}, "n": source.randint(0, 9)}
    if source.random() < 0.7:
        value["list"] = [source.randint(0, 9) for _ in range(source.randint(0, 3))]
    return value


def random_operation(source: random.Random) -> dict[str, Any]:
    number = source.randint(0, 9)
    return source.choice(
        [
            {"op": "replace", "path": "/a/b", "value": number},
            {"op": "replace", "path": "/a", "value": {"b": number}},
            {"op": "add", "path": "/new", "value": number},
            {"op": "remove", "path": "/new"},
            {"op": "add", "path": "/list/0", "value": number},
            {"op": "splice", "path": "/list", "index": 0, "remove": 1, "add": [number, number]},
            {"op": "increment", "path": "/n", "by": number},
            {"op": "copy", "from": "/a/b", "path": "/copied"},
            {"op": "move", "from": "/new", "path": "/moved"},
            {"op": "test", "path": "/n", "value": number},
        ]
    )


class Transaction:
    """A random transaction that a seed makes again exactly; it asks the space for what its view lacks.

    `told` is everything that it was told without being blind: what it would be told again if it had been alone.
    """

    def __init__(self, seed: int, view: PlainView, space: MemorySpace) -> None:
        self.random = random.Random(seed)
        self.view = view
        self.space = space
        self.draft = TransactionDraft(view, limits=DEFAULTS)
        self.told: list[object] = []
        self.was_refused_blindly = False

    def run(self) -> Transaction:
        doings: list[Callable[[], None]] = [self.get, self.list, self.put, self.patch, self.update, self.delete]
        for _ in range(self.random.randint(1, 7)):
            self.random.choice(doings)()
        return self

    def plan(self) -> CommitPlan:
        for id_ in self.draft.missing():
            self.learn(id_)
        return self.draft.plan()

    def learn(self, id_: str) -> None:
        self.draft.learn(EntityId(id_), value_at(self.space, id_, self.view.to))

    def value(self, id_: str, path: str = "") -> Any:
        found = self.draft.get(id_, path)
        if found is MISSING:
            self.learn(id_)
            found = self.draft.get(id_, path)
        assert found is not MISSING
        return found

    def get(self) -> None:
        self.told.append(self.value(self.random.choice(IDS), self.random.choice(PATHS)))

    def list(self) -> None:
        prefix = self.random.choice(PREFIXES)
        found = self.draft.listing(prefix)
        if found is MISSING:
            self.draft.learn_listing(prefix, self.confirmed_under(prefix))
            found = self.draft.listing(prefix)
        assert found is not MISSING
        self.told.append(found)

    def confirmed_under(self, prefix: str) -> Mapping[EntityId, CachedEntity]:
        answers = {EntityId(id_): value_at(self.space, id_, self.view.to) for id_ in IDS if id_.startswith(prefix)}
        return {id_: one for id_, one in answers.items() if one.value is not ABSENT}

    def put(self) -> None:
        id_, value = self.random.choice(IDS), random_value(self.random)
        if self.random.random() < 0.3:
            self.attempt(lambda: self.draft.create(id_, value))
        else:
            blind = self.random.random() < 0.2
            self.attempt(lambda: self.draft.set(id_, value, blind=blind), blind=blind)

    def patch(self) -> None:
        id_, blind = self.random.choice(IDS), self.random.random() < 0.2
        operations = [random_operation(self.random) for _ in range(self.random.randint(1, 3))]
        self.attempt(lambda: self.draft.patch(id_, operations, blind=blind), blind=blind)

    def update(self) -> None:
        """As apps do it: read, change, write back."""
        id_, value = self.random.choice(IDS), random_value(self.random)
        self.told.append(self.value(id_))
        self.attempt(lambda: self.draft.update(id_, value))

    def delete(self) -> None:
        id_, blind = self.random.choice(IDS), self.random.random() < 0.2
        if not blind:
            self.told.append(self.value(id_) is None)
        self.attempt(lambda: self.draft.delete(id_, blind=blind), blind=blind)

    def attempt(self, doing: Callable[[], None], *, blind: bool = False) -> None:
        try:
            doing()
        except StemmaError as why:
            self.told.append(why.code)
            self.was_refused_blindly |= blind
