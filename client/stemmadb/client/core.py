"""The core of a space: its session and link, and everything that all its branches share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from stemmadb.client.nursery.entities import CachedEntity
from stemmadb.client.nursery.pending import writes_of
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite
from stemmadb.client.nursery.view import NurseryView
from stemmadb.client.reading.fetch import FetchedSnapshot, fetch_ids, fetch_query
from stemmadb.client.reading.undo import UndoManager
from stemmadb.client.reading.undo_stack import UndoStack
from stemmadb.client.session.handle import Handle
from stemmadb.client.session.link import ServerLink
from stemmadb.client.session.refused import Refused
from stemmadb.client.session.session import ClientSession
from stemmadb.client.status import PendingCommit, SpaceStatus
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import GoingAway, Malformed, NotInView, StemmaError, TimedOut, Unconfirmed
from stemmadb.protocol.model.commit.request import Content, Operation
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.channel import Dial
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest

CATCH_UP_SECONDS: Final = 5.0
"""How long a transaction waits to hear where the server is; then it stands where the client stands."""


KEPT: Final = "The client was closed; what is pending is kept by the journal."
CLOSED: Final = "The client was closed. Connect again to go on."
UNKEPT: Final = "The client was closed; no journal keeps what is pending: it may be on the server or not."


class SpaceCore:
    """One open space. `close` ends it; until then a task keeps it connected."""

    def __init__(self, session: ClientSession, dial: Dial, *, url: str, random: Callable[[], float]) -> None:
        self.session = session
        self.link = ServerLink(session, dial, url=url, random=random)
        self.chance = random
        """A number from 0 to 1."""
        self._undos: dict[BranchName, UndoManager] = {}
        self._undo_stacks: dict[BranchName, UndoStack] = {}
        self._task = asyncio.get_running_loop().create_task(self.link.run())
        session.resubmit = self._resubmit
        session.notifier.on_confirmed = self._note_confirmed
        session.notifier.on_restored = self._start_anew

    # ------------------------------------------------------------ for transactions (`transactions.TransactionPort`)

    @property
    def limits(self) -> Limits:
        return self.session.requester.limits

    def view(self, branch: BranchName) -> NurseryView:
        return self.session.nursery.view(branch)

    def release(self, view: NurseryView) -> None:
        self.session.nursery.release(view)

    @property
    def history(self) -> int:
        return self.session.nursery.history

    def submit(self, plan: CommitPlan, *, history: int | None = None) -> Handle:
        return self.session.submit(plan, history=history)

    async def fetch(
        self, branch: BranchName, ids: Iterable[EntityId], version: Version
    ) -> dict[EntityId, CachedEntity]:
        wanted = tuple(ids)
        await self.reach(wanted[0])
        return _cached(await fetch_ids(self.session.requester, branch, wanted, version=version))

    async def fetch_under(self, branch: BranchName, prefix: str, version: Version) -> dict[EntityId, CachedEntity]:
        await self.reach(f"{prefix}*")
        return _cached(await fetch_query(self.session.requester, Query((Root(f"{prefix}*"),), branch, version)))

    async def begin(self) -> None:
        """A transaction begins: it must stand on own writes beside commits, such as a merge."""
        self.check_open()
        if self.session.nursery.to < self.link.server_head and self.link.state == "open":
            await self.catch_up()

    async def catch_up(self) -> None:
        """A question whose answer comes after a frame that reaches the head (SYNC-7); without a server nothing."""
        if self.link.state == "open":
            query = Query((Root(self.session.space),))
            with suppress(StemmaError):
                await self.session.requester.ask(QueryRequest, QueryAnswer, timeout=CATCH_UP_SECONDS, query=query)

    async def reach(self, what: str) -> None:
        """What is not in view needs the server; without one it is refused at once (NURSERY-8)."""
        await self.link.settled()
        if self.link.state != "open":
            raise NotInView(id=what)

    # ------------------------------------------------------------ refused commits

    async def _resubmit(self, refused: Refused, operations: Sequence[Mapping[str, Any]] | None) -> Transaction:
        writes = refused.writes() if operations is None else _edited(operations, refused.branch)
        async with Transaction(self, refused.branch, note=refused.note) as tx:
            if self.link.state != "open" or refused.decided >= self.session.nursery.to:
                tx.learn(refused.current_entities())  # nothing newer is here: no server is needed (SYNC-5)
            for write in writes:
                tx.repeat(write)
        return tx

    # ------------------------------------------------------------ undo

    def undoing(self, branch: BranchName) -> UndoManager:
        """Undo and redo on a branch: one for all who look at it."""
        if branch not in self._undos:
            stack = self._undo_stacks[branch] = UndoStack()
            self._undos[branch] = UndoManager(self.session.requester, branch, stack)
        return self._undos[branch]

    def _start_anew(self) -> None:
        """The versions of another history mean nothing in this one (RESUME-4)."""
        self.link.server_head = EMPTY_SPACE
        for stack in self._undo_stacks.values():
            stack.forget()

    def _note_confirmed(self, branch: BranchName, version: Version) -> None:
        self.undoing(branch)
        self._undo_stacks[branch].committed(version)

    async def settled(self) -> None:
        """Returns once every own commit is decided; `Unreachable` or `TimedOut` if that takes too long."""
        seconds = self.session.settings.ask_seconds
        try:
            async with asyncio.timeout(seconds):
                await self.session.notifier.idle()
        except TimeoutError:
            raise self.session.why_offline or TimedOut(timeout_ms=round(seconds * 1_000)) from None

    # ------------------------------------------------------------ how it stands

    def status(self) -> SpaceStatus:
        session, waiting = self.session, self.session.notifier.undecided()
        now = asyncio.get_running_loop().time()
        return SpaceStatus(
            connection=self.link.state,
            error=session.failure or session.why_offline,
            local_head=session.nursery.to,
            server_head=max(self.link.server_head, session.nursery.to),
            pending=len(waiting),
            pending_bytes=session.pending_bytes,
            oldest_pending_seconds=now - waiting[0].since if waiting else None,
            rejected=len(session.notifier.rejected_commits),
            lost=len(session.notifier.lost),
            cache=session.cache_status,
            as_of=session.as_of(),
        )

    def pending(self) -> list[PendingCommit]:
        now, notifier = asyncio.get_running_loop().time(), self.session.notifier
        found = []
        for pending in self.session.nursery.pending():
            handle = notifier.handle(pending.name)
            if handle is not None:  # after the end nobody here learns what becomes of them
                found.append(PendingCommit(pending, handle, age_seconds=now - handle.since))
        return found

    # ------------------------------------------------------------ the end

    def check_open(self) -> None:
        """`GoingAway` after the end: nobody would ever send what is written then, or tell what is watched."""
        if self.session.ended is not None:
            raise GoingAway(CLOSED)

    async def close(self, *, wait_seconds: float) -> StemmaError | None:
        """Waits a while for undecided commits, then lets go; gives the error if work is left that nothing keeps.

        Everything is let go also if the waiting is cancelled. Closing twice does no harm.
        """
        try:
            await self._wait_for_verdicts(wait_seconds)
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self.link.end()
            left = await self.session.close(GoingAway(KEPT if self.session.keeps else UNKEPT))
            self.session.refuse_requests(GoingAway(CLOSED))
        return Unconfirmed(count=left) if left else None

    async def _wait_for_verdicts(self, seconds: float) -> None:
        """Without a connection only for what nothing keeps: a lost connection may be back in a moment."""
        may_come = self.link.state in ("connecting", "offline") and not self.session.keeps
        if self.link.state == "open" or may_come:
            try:
                async with asyncio.timeout(seconds):
                    await self.session.notifier.idle()
            except TimeoutError:
                pass


def _cached(snapshot: FetchedSnapshot) -> dict[EntityId, CachedEntity]:
    return {
        id_: CachedEntity(one.value, one.version, one.hash, snapshot.version)
        for id_, one in snapshot.entities.items()
    }


def _edited(operations: Sequence[Mapping[str, Any]], branch: BranchName) -> tuple[CommitWrite, ...]:
    """Operations as `Refused.operations` gives them, after somebody changed them."""
    made = []
    for index, one in enumerate(operations):
        body: Value = one.get("value") if one.get("op") == "set" else one.get("patch")
        kind, id_ = one.get("op"), one.get("id")
        if kind not in ("set", "patch", "delete") or not isinstance(id_, str):
            raise Malformed(path=f"operations/{index}", why="it has an 'op' (set, patch, delete) and an 'id'")
        encoded = None if kind == "delete" else encode(body)
        made.append(Operation(op=kind, id=EntityId(id_), body=encoded, blind=bool(one.get("blind"))))
    return writes_of(Content(operations=tuple(made), branch=branch))
