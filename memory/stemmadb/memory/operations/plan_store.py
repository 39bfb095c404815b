"""A plan in the store: read whole, and changed by transactions in which the rules of the plan hold.

`apply` decides on a snapshot of the plan, then writes in a transaction that declares what the decision rests on: what
it replaces, that parents and dependencies exist, and the dependencies of every task on the way from a new one. A
transaction that finds something else starts again with a new snapshot. Nothing else is declared, so that other tasks
may change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from stemmadb.client import Space, Transaction
from stemmadb.memory.operations.plan_links import PlanLinks
from stemmadb.memory.rules.ids import FILES, TASKS, NamespaceHash, namespace_entity, namespace_hash
from stemmadb.memory.rules.instants import Millis, is_past
from stemmadb.memory.rules.namespaces import KINDS, Namespace, read_kind
from stemmadb.memory.rules.records import stored as as_stored
from stemmadb.memory.rules.refusals import Busy, NoSuchNamespace
from stemmadb.memory.rules.tasks import ids
from stemmadb.memory.rules.tasks.decide import FileChange, SyncDecision, decide
from stemmadb.memory.rules.tasks.merge import is_same
from stemmadb.memory.rules.tasks.paths import PlanFile, file_of
from stemmadb.memory.rules.tasks.plan import dependencies_of
from stemmadb.protocol.errors import AlreadyExists, BadInput, Conflict, Dependency, Overtaken, Rejected

CHANGES_AT_ONCE: Final = 450
"""Each may write its parent too, and a commit has at most 1,000 operations."""
TRIES_MAX: Final = 10


class _PlanMoved(Exception):
    """What the decision rests on has changed."""


class PlanStore:
    """The plan of one namespace. `now` gives milliseconds since 1970."""

    def __init__(self, space: Space, namespace: str, *, now: Callable[[], int]) -> None:
        self._space = space
        self._namespace = namespace
        self._nsh: NamespaceHash = namespace_hash(namespace)
        self._now = now

    async def read(self) -> dict[PlanFile, Any]:
        """Every task's record and every note's text."""
        found: dict[PlanFile, Any] = {}
        for prefix in (TASKS, FILES):
            for entity, value in (await self._space.list(f"{prefix}{self._nsh}:*")).items():
                file = file_of(entity, self._nsh)
                content = _content(file, value)
                if file is not None and content is not None:
                    found[file] = content
        return found

    async def apply(self, changes: Sequence[FileChange]) -> tuple[SyncDecision, dict[PlanFile, Any]]:
        """Writes what can be written; what became of each change, and what the store has then."""
        stored = await self.read()
        whole = SyncDecision({}, {}, {}, [])
        for some in portions(changes):
            stored = await self._apply_some(some, stored, whole)
        return whole, stored

    async def _apply_some(
        self, changes: Sequence[FileChange], stored: dict[PlanFile, Any], whole: SyncDecision
    ) -> dict[PlanFile, Any]:
        for _ in range(TRIES_MAX):
            made = decide(changes, stored)
            try:
                await self._write(made.writes, stored)
            except (_PlanMoved, AlreadyExists, Conflict, Dependency, Overtaken):
                stored = await self.read()
                continue
            except BadInput as error:  # one of them is too large, or holds what the store cannot
                return await self._apply_halves(changes, stored, whole, error)
            whole.writes.update(made.writes)
            whole.clashes.update(made.clashes)
            whole.refusals.update(made.refusals)
            whole.notes.extend(made.notes)
            after = {**stored, **made.writes}
            return {file: value for file, value in after.items() if value is not None}
        raise Busy

    async def _apply_halves(
        self, changes: Sequence[FileChange], stored: dict[PlanFile, Any], whole: SyncDecision, error: BadInput
    ) -> dict[PlanFile, Any]:
        """A file that the store refuses stops only itself: halves are tried until it is alone."""
        if len(changes) == 1:
            whole.refusals[changes[0].file] = str(error)
            return stored
        middle = len(changes) // 2
        for some in (changes[:middle], changes[middle:]):
            stored = await self._apply_some(some, stored, whole)
        return stored

    # ------------------------------------------------------------ one transaction

    async def _write(self, writes: Mapping[PlanFile, Any], stored: Mapping[PlanFile, Any]) -> None:
        if not writes:
            return
        async with self._space.transaction(note="files sync") as tx:
            await self._make_namespace(tx)
            for file, value in writes.items():
                await self._write_one(tx, file, value, stored.get(file))
            await self._declare_links(tx, writes, stored)
        try:
            await tx.confirmed()
        except Rejected:
            assert tx.rejection is not None, "it was refused"
            tx.rejection.drop()
            raise

    async def _make_namespace(self, tx: Transaction) -> None:
        """Makes it on the first write; `NoSuchNamespace` if it is expired or being deleted."""
        entity, now = namespace_entity(self._nsh), Millis(self._now())
        kind = await tx.get(entity, "/kind")
        if kind is None:
            named = self._namespace.partition(":")[0]
            made = Namespace(
                name=self._namespace, kind=read_kind(named if named in KINDS else "custom"), created_at=now
            )
            tx.create(entity, as_stored(made))
            return
        expires_at = await tx.get(entity, "/expires_at")
        is_expired = isinstance(expires_at, int) and is_past(Millis(expires_at), now)
        if is_expired or await tx.get(entity, "/deleting"):
            raise NoSuchNamespace(self._namespace)

    async def _write_one(self, tx: Transaction, file: PlanFile, value: Any, before: Any) -> None:
        entity = file.entity(self._nsh)
        wanted = {"v": 1, "text": value} if file.kind == "note" else value
        if before is None:
            tx.create(entity, wanted)
            return
        if not is_same(_content(file, await tx.get(entity)), before):
            raise _PlanMoved
        if value is None:
            tx.delete(entity)
        else:
            tx.update(entity, wanted)

    async def _declare_links(
        self, tx: Transaction, writes: Mapping[PlanFile, Any], stored: Mapping[PlanFile, Any]
    ) -> None:
        """Parents and dependencies exist, and no way leads from a new dependency back to its task."""
        tasks = {file.name: value for file, value in writes.items() if file.kind == "task"}
        links = PlanLinks(tx, self._nsh)
        for id_, value in tasks.items():
            if value is None:
                await self._declare_unused(tx, id_, stored)
                continue
            old = stored.get(PlanFile("task", id_))
            added = set(dependencies_of(value)) - set([] if old is None else dependencies_of(old))
            parent = ids.parent_of(id_)
            above = {parent} if old is None and parent is not None else set()
            if await links.missing(added | above) or await links.leads_to(added, id_):
                raise _PlanMoved

    async def _declare_unused(self, tx: Transaction, id_: str, stored: Mapping[PlanFile, Any]) -> None:
        """Those that depended on a deleted task do so no more."""
        for file, record in stored.items():
            if file.kind == "task" and file.name != id_ and id_ in dependencies_of(record):
                now = await tx.get(self._task(file.name), "/dependencies")
                if id_ in dependencies_of({"dependencies": now}):
                    raise _PlanMoved

    def _task(self, id_: str) -> str:
        return PlanFile("task", id_).entity(self._nsh)


def _content(file: PlanFile | None, value: object) -> Any:
    """What a stored value is to the rules; None for what somebody else wrote under such an id."""
    if file is None or not isinstance(value, Mapping):
        return None
    if file.kind == "task":
        return dict(value)
    return value.get("text") if isinstance(value.get("text"), str) else None


def portions(changes: Sequence[FileChange]) -> Iterable[Sequence[FileChange]]:
    """Parents and dependencies before the tasks that need them; what is deleted last, children first."""
    kept = [change for change in changes if change.mine is not None]
    gone = [change for change in changes if change.mine is None]
    by_id = {change.file.name: change for change in kept if change.file.kind == "task"}
    ordered: dict[str, FileChange] = {}
    for id_ in sorted(by_id, key=ids.order):
        _place(id_, by_id, ordered)
    rest = [change for change in kept if change.file.kind == "note"]
    gone.sort(key=lambda change: (change.file.kind, len(change.file.name)), reverse=True)
    every = [*ordered.values(), *rest, *gone]
    return [every[start : start + CHANGES_AT_ONCE] for start in range(0, len(every), CHANGES_AT_ONCE)]


def _place(id_: str, by_id: Mapping[str, FileChange], ordered: dict[str, FileChange]) -> None:
    """Puts what a task needs before it. Without recursion: a chain of dependencies may be long."""
    ahead: list[str] = [id_]
    entered: set[str] = set()
    while ahead:
        last = ahead[-1]
        if last in ordered or last not in by_id:
            ahead.pop()
        elif last in entered:
            ordered[last] = by_id[last]
            ahead.pop()
        else:
            entered.add(last)
            mine = by_id[last].mine
            needs = dependencies_of(mine) if isinstance(mine, Mapping) else []
            ahead.extend(one for one in (*needs, ids.parent_of(last)) if one is not None and one not in entered)
