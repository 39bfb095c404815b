"""Transactions: what an app reads and writes in one block becomes one commit (NURSERY-2, NURSERY-8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from stemmadb.client.drafting import MISSING, TransactionDraft
from stemmadb.client.notes import given_note
from stemmadb.client.nursery.entities import ABSENT, CachedEntity
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite
from stemmadb.client.nursery.view import NurseryView
from stemmadb.client.reading.queries import listed_prefix
from stemmadb.client.session.handle import Handle, Status
from stemmadb.client.session.refused import Refused
from stemmadb.client.session.session import RESTORED
from stemmadb.protocol.errors import Conflict, FutureVersion, Malformed
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits

T = TypeVar("T")
HISTORIES_MAX: Final = 3
"""How often a read begins anew because the server was restored to another history meanwhile."""


class TransactionPort(Protocol):
    """What a transaction needs of its space."""

    @property
    def limits(self) -> Limits: ...

    def view(self, branch: BranchName) -> NurseryView: ...

    def release(self, view: NurseryView) -> None: ...

    async def begin(self) -> None:
        """Returns at once, unless the client knows of own writes that its view does not have yet."""
        ...

    async def catch_up(self) -> None:
        """Brings the view to where the server is; returns at once if there is no server."""
        ...

    async def fetch(
        self, branch: BranchName, ids: Iterable[EntityId], version: Version
    ) -> dict[EntityId, CachedEntity]:
        """These entities as of a version; what is not there is left out. `NotInView` if there is no server."""
        ...

    async def fetch_under(self, branch: BranchName, prefix: str, version: Version) -> dict[EntityId, CachedEntity]:
        """Everything under a prefix as of a version."""
        ...

    @property
    def history(self) -> int:
        """Which of the server's histories the views are of: a restored server has another one (RESUME-4)."""
        ...

    def submit(self, plan: CommitPlan, *, history: int) -> Handle:
        """The commit is refused at once with `Conflict` if the server has another history since."""
        ...


class Transaction:
    """One commit in the making, and its handle once the block has ended.

        async with space.transaction() as tx:
            todo = await tx.get("urn:todo:1")
            tx.update("urn:todo:1", todo | {"done": True})
        await tx.confirmed()

    Everything it reads is as of the moment it began. What it read or wrote must not have changed on the server when
    it is decided, unless it was written `blind`. If the block raises, nothing is written.
    """

    def __init__(self, port: TransactionPort, branch: BranchName, *, note: Value = None) -> None:
        self._port = port
        self._branch = branch
        self._note = None if note is None else given_note(note)
        self._view: NurseryView | None = None
        self._draft: TransactionDraft | None = None
        self._handle: Handle | None = None
        self._at: Version = EMPTY_SPACE
        self._history = 0
        self._has_begun = False
        self._has_failed = False

    async def __aenter__(self) -> Transaction:
        if self._has_begun:
            raise _wrong("A transaction is used once; start another one.", "it was used")
        self._has_begun = True
        await self._port.begin()
        self._view = self._port.view(self._branch)
        self._history = self._port.history
        self._at = self._view.to
        self._draft = TransactionDraft(self._view, limits=self._port.limits, note=self._note)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._has_failed = True
        try:
            plan = await self._planned() if error is None else None
        finally:
            self._port.release(self._begun)
            self._view = self._draft = None
        if plan is not None:
            self._handle = self._port.submit(plan, history=self._history) if plan.writes else None
            self._has_failed = False

    async def _planned(self) -> CommitPlan:
        missing = self._open.missing()
        if missing:
            await self._learn(sorted(missing))
        return self._open.plan()

    @property
    def _open(self) -> TransactionDraft:
        if not self._has_begun:
            raise _not_begun()
        if self._draft is None:
            raise _wrong("The transaction is over; start another one.", "it is over")
        return self._draft

    @property
    def _begun(self) -> NurseryView:
        assert self._view is not None, "use it with 'async with'"
        return self._view

    # ------------------------------------------------------------ reading

    async def get(self, id_: str, path: str = "", *, default: Value = None) -> Value:
        """The value, or the part of it at `path`, as this transaction sees it; `default` if there is none.

        It must not have changed when the commit is decided: name the path you use, and others may change the rest.
        """
        value = self._open.get(id_, path, default)
        if value is MISSING:
            await self._learn((EntityId(id_),))
            value = self._open.get(id_, path, default)
            assert value is not MISSING, "what was learned is known"
        return value

    async def list(self, prefix: str = EVERY) -> dict[EntityId, Value]:
        """Everything under a prefix such as `urn:todo:*`; nothing may be added there before the commit is decided."""
        bare = listed_prefix(prefix)
        found = self._open.listing(bare)
        if found is MISSING:
            fetched = await self._fetched(lambda: self._port.fetch_under(self._branch, bare, self._at))
            self._open.learn_listing(bare, fetched)
            found = self._open.listing(bare)
            assert found is not MISSING, "what was learned is known"
        return found

    async def _learn(self, ids: Iterable[EntityId]) -> None:
        wanted = tuple(ids)

        async def fetch() -> Mapping[EntityId, CachedEntity]:
            nonlocal wanted
            if not self._open.is_observed:  # what was learned before was learned of an older view
                wanted = tuple(dict.fromkeys((*wanted, *sorted(self._open.missing()))))
            return await self._port.fetch(self._branch, wanted, self._at)

        found = await self._fetched(fetch)
        for id_ in wanted:
            self._open.learn(id_, found.get(id_) or CachedEntity(ABSENT, EMPTY_SPACE, facts.empty(id_), self._at))

    async def _fetched(self, fetch: Callable[[], Awaitable[T]]) -> T:
        """What is not in view is read as of the view; as long as the app was told nothing, the view is a new one.

        `Conflict` if the app has read something and the server was restored to another history since: there the
        version of the view is another commit, or none (RESUME-4).
        """
        for _ in range(HISTORIES_MAX):
            if not self._open.is_observed:
                await self._port.catch_up()
                self._move()
            try:
                found = await fetch()
            except FutureVersion:
                if self._port.history == self._history:
                    raise
            else:
                if self._port.history == self._history:
                    return found
            if self._open.is_observed:
                break
        raise Conflict(RESTORED, count=0, stale=())

    def _move(self) -> None:
        """Starts on the view of now: others may have written what this transaction is about to read."""
        view = self._port.view(self._branch)
        self._draft = self._open.moved_to(view)
        self._port.release(self._begun)
        self._view, self._at, self._history = view, view.to, self._port.history

    # ------------------------------------------------------------ writing

    def set(self, id_: str, value: object, *, blind: bool = False) -> None:
        """Gives it this value, whether it is there or not. `blind`: whatever others did meanwhile."""
        self._open.set(id_, value, blind=blind)

    def create(self, id_: str, value: object) -> None:
        """The same for one that must not be there yet; `AlreadyExists`, here or when the block ends."""
        self._open.create(id_, value)

    def patch(self, id_: str, operations: Sequence[Mapping[str, Any]], *, blind: bool = False) -> None:
        """Changes parts of it: JSON Patch (RFC 6902), with `splice` and `increment`."""
        self._open.patch(id_, operations, blind=blind)

    def update(self, id_: str, value: object) -> None:
        """Gives one that is there this value, and writes only what differs."""
        self._open.update(id_, value)

    def increment(self, id_: str, path: str, by: int | float = 1, *, blind: bool = False) -> None:
        """Adds to a number; increments of others never conflict with it."""
        self._open.increment(id_, path, by, blind=blind)

    def delete(self, id_: str, *, blind: bool = False) -> None:
        """Takes it away."""
        self._open.delete(id_, blind=blind)

    def repeat(self, write: CommitWrite) -> None:
        """An operation that was made before."""
        if write.op == "set":
            self.set(write.id, write.value, blind=write.blind)
        elif write.op == "delete":
            self.delete(write.id, blind=write.blind)
        else:
            assert isinstance(write.value, list), "a patch is a list of operations"
            self.patch(write.id, write.value, blind=write.blind)  # type: ignore[arg-type]  # each an object

    def learn(self, known: Mapping[EntityId, CachedEntity]) -> None:
        """What is known of entities that are not in view, so that they need not be asked for."""
        for id_, cached in known.items():
            if self._begun.shown(id_) is None:
                self._open.learn(id_, cached)

    # ------------------------------------------------------------ what became of it

    @property
    def status(self) -> Status:
        """`pending`, `confirmed` or `rejected`; confirmed if it had nothing to write, rejected if it failed."""
        if self._handle is not None:
            return self._handle.status
        if self._has_failed:
            return "rejected"
        return "confirmed" if self._is_over else "pending"

    @property
    def _is_over(self) -> bool:
        """Whether its block has ended, well or not."""
        return self._has_begun and self._draft is None

    def _check(self) -> None:
        """`Malformed` if there is nothing to wait for: the block has not ended, or raised and nothing was written."""
        if not self._has_begun:
            raise _not_begun()
        if self._draft is not None:
            raise _wrong("The transaction is not over: wait for it after its block.", "its block has not ended")
        if self._has_failed:
            why = "its block failed, and nothing was written"
            raise _wrong(f"There is nothing to wait for: {why}.", why)

    @property
    def version(self) -> Version | None:
        """The version it took, once it is confirmed; for one that wrote nothing the version it read."""
        if self._handle is not None:
            return self._handle.version
        return self._at if self._is_over and not self._has_failed else None

    @property
    def rejection(self) -> Refused | None:
        """Why it was rejected, because of which commit, the current values, and a way to try again."""
        return None if self._handle is None else self._handle.rejection

    async def applied(self) -> None:
        """Returns at once after the block: the view has it."""
        self._check()

    async def journaled(self) -> None:
        """Returns once the journal has it, so that it survives a crash of the app."""
        self._check()
        if self._handle is not None:
            await self._handle.journaled()

    async def confirmed(self) -> Version:
        """Its version, once it is durable on the server; raises `Conflict`, or whatever it was refused with."""
        self._check()
        return self._at if self._handle is None else await self._handle.confirmed()

    def __repr__(self) -> str:
        return f"Transaction({self.status}, version {self.version})"


def _wrong(message: str, why: str) -> Malformed:
    return Malformed(message, path="transaction", why=why)


def _not_begun() -> Malformed:
    return _wrong("The transaction has not begun: use it in a 'with' block.", "it has not begun")
