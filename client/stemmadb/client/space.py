"""A space on one branch: what an app reads, writes and watches."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar, Unpack, cast, overload

from stemmadb.client.core import SpaceCore
from stemmadb.client.live_map import LiveMap
from stemmadb.client.nursery.entities import UNKNOWN, Nothing
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite, PlannedRead
from stemmadb.client.reading import differences, erasure, merge, overviews, past, undo
from stemmadb.client.reading.access import Acl, Roles
from stemmadb.client.reading.blobs import Blobs
from stemmadb.client.reading.branches import Branch, Branches, Tags
from stemmadb.client.reading.delegation import DelegableRole, DelegationTerms, Delegator, Expiry
from stemmadb.client.reading.differences import Difference, Side
from stemmadb.client.reading.entries import BlameLine, HistoryEntry, LogEntry, Receipt
from stemmadb.client.reading.erasure import Compaction, Erasure
from stemmadb.client.reading.heads import Heads
from stemmadb.client.reading.merge import MergeOptions, MergeReport
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.overviews import EntityCount, EntityPreview, Histogram, HistogramFilters, PrefixCount
from stemmadb.client.reading.pages import Listing
from stemmadb.client.reading.past import HistoryPoint, LogFilters
from stemmadb.client.reading.plain import Given, decoded, part_of
from stemmadb.client.reading.queries import QueryResult, Schema, Selector, roots_of
from stemmadb.client.reading.times import When
from stemmadb.client.reading.undo import RevertOptions, RevertReport
from stemmadb.client.reading.windows import WindowOptions, windowed
from stemmadb.client.session.notifier import OnHead, OnLost, OnRejected
from stemmadb.client.session.refused import Refused
from stemmadb.client.status import PendingCommit, SpaceStatus
from stemmadb.client.transactions import Transaction
from stemmadb.client.watches import Watch
from stemmadb.protocol.errors import (
    BranchDeleted,
    BranchExists,
    Conflict,
    Dependency,
    InvalidQuery,
    Overtaken,
    UnknownBranch,
)
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values import body, ids, pointer
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages.reading import HistogramBy, Order, Shape

T = TypeVar("T")

SEPARATORS: Final = ":/#"
"""At one of which a child of a prefix ends."""
TRIES_MAX: Final = 10
"""How often `transact` runs its function before it gives up."""
FIRST_PAUSE_SECONDS: Final = 0.01
MOST_PAUSE_SECONDS: Final = 0.5
"""What it waits at most before the second try, and before any: two that go in step would collide for ever."""


class Space:
    """One space, seen on one branch. `branch` gives the same space on another.

    Reads of what is watched need no server, and show own writes at once. Everything else asks the server, and shows
    own pending writes on top.
    """

    def __init__(self, core: SpaceCore, branch: BranchName = MAIN) -> None:
        self._core = core
        self._session = core.session
        self._requester = core.session.requester
        self.did: Did = core.session.space
        self.branch_name = branch
        self._heads = Heads(self._requester, core.session.nursery, branch=branch, space=self.did)
        self._undoing = core.undoing(branch)
        self._delegator = Delegator(
            self._requester,
            core.session.identity,
            space=self.did,
            now=core.session.now,
            held=core.session.delegations,
        )
        self.blobs = Blobs(self._requester)
        """`await space.blobs.put(data)`, `await space.blobs.get(ref)`."""
        self.acl = Acl(self._requester, self._commit_roles)
        """`await space.acl.get()`, `await space.acl.set(did, "write")`."""
        self.tags = Tags(self._requester)
        """`await space.tags.create("v1")`, `await space.tags.list()`."""
        self._branches = Branches(self._requester)

    # ------------------------------------------------------------ writing

    def transaction(self, *, note: Value = None) -> Transaction:
        """One commit: `async with space.transaction() as tx: tx.set(...)`. In the view when the block ends."""
        return Transaction(self._core, self.branch_name, note=note)

    @overload
    async def transact(
        self, fn: Callable[[Transaction], Awaitable[T]], *, note: Value = None, tries: int = TRIES_MAX
    ) -> T: ...

    @overload
    async def transact(self, fn: Callable[[Transaction], T], *, note: Value = None, tries: int = TRIES_MAX) -> T: ...

    async def transact(
        self, fn: Callable[[Transaction], Awaitable[T] | T], *, note: Value = None, tries: int = TRIES_MAX
    ) -> T:
        """Runs `fn(tx)` and waits until its commit is confirmed; runs it again on the current values on a conflict.

        async def count(tx):
            todo = await tx.get("urn:todo:1")
            tx.update("urn:todo:1", todo | {"tries": todo["tries"] + 1})

        await space.transact(count)
        """
        if tries < 1:
            raise InvalidQuery(why="a transaction is tried at least once")
        for tried in range(tries):
            async with self.transaction(note=note) as tx:
                result = fn(tx)
                if inspect.isawaitable(result):
                    result = await result
            try:
                await tx.confirmed()
            except (Conflict, Dependency, Overtaken):
                if tried + 1 == tries:
                    raise
                assert tx.rejection is not None, "it was refused"
                tx.rejection.drop()
                await asyncio.sleep(self._core.chance() * min(FIRST_PAUSE_SECONDS * 2**tried, MOST_PAUSE_SECONDS))
            else:
                return cast("T", result)
        raise AssertionError("at least one try")

    async def settled(self) -> None:
        """Returns once every own commit has been decided."""
        await self._session.notifier.idle()

    # ------------------------------------------------------------ reading

    async def get(self, id_: str, path: str = pointer.ROOT) -> Value:
        """The value, or the part of it at `path`; None if there is none. Own writes are seen at once."""
        entity = ids.entity_id(id_, self._requester.limits.id_bytes_max)
        pointer.parse(path)
        nursery, branch = self._session.nursery, self.branch_name
        is_local = nursery.is_local(branch, entity)
        shown = nursery.value(branch, entity)
        if is_local or (self._core.link.state != "open" and shown is not UNKNOWN):
            return None if isinstance(shown, Nothing) else decoded(body.encode(part_of(shown, path)))
        if self._session.has_cache:
            await self._core.reach(id_)
        return await self._heads.get(id_, path)

    async def list(self, prefix: str = EVERY) -> dict[str, Value]:
        """Everything under a prefix such as `urn:todo:*`, by id."""
        return await self._heads.list(prefix)

    async def query(
        self,
        selector: Selector = EVERY,
        *,
        schema: Schema | None = None,
        path: str = pointer.ROOT,
        **window: Unpack[WindowOptions],
    ) -> QueryResult:
        """What matches, and what its links lead to: `await space.query("urn:todo:*", schema={...})`.

        `order="-/rank"` puts it in order, `limit=20` takes the first, and `after=found.after` the next ones.
        """
        return await self._heads.query(selector, schema=schema, path=path, **window)

    def watch(
        self,
        selector: Selector = EVERY,
        *,
        schema: Schema | None = None,
        path: str = pointer.ROOT,
        **window: Unpack[WindowOptions],
    ) -> Watch:
        """The same, kept up to date: `async for change in space.watch("urn:todo:*", schema={...}): ...`."""
        self._core.check_open()
        roots = roots_of(selector, schema=schema, path=path)
        return Watch(self._session.subscriptions, windowed(roots, self.branch_name, window))

    def live(
        self,
        selector: Selector = EVERY,
        *,
        schema: Schema | None = None,
        path: str = pointer.ROOT,
        **window: Unpack[WindowOptions],
    ) -> LiveMap:
        """The same as a mapping that is always current: `async with space.live("urn:todo:*") as todos: ...`."""
        return LiveMap(self.watch(selector, schema=schema, path=path, **window))

    # ------------------------------------------------------------ the past

    def at(self, *, version: int | None = None, time: When | None = None, tag: str | None = None) -> Moment:
        """Any past state: `await space.at(version=3).get("urn:todo:1")`."""
        return Moment(self._requester, branch=self.branch_name, space=self.did, version=version, time=time, tag=tag)

    def history(self, id_: str, *, version: int | None = None, order: Order = "newest") -> Listing[HistoryEntry]:
        """The changes of an entity: `async for entry in space.history("urn:todo:1"): ...`."""
        where = HistoryPoint(self.branch_name, None if version is None else Version(version))
        return past.history(self._requester, id_, where, order=order)

    def log(self, **filters: Unpack[LogFilters]) -> Listing[LogEntry]:
        """The commits of this branch, newest first; `branch=None` for those of all branches."""
        return past.log(self._requester, **({"branch": self.branch_name} | filters))

    async def diff(self, left: Side, right: Side = None, *, prefix: str = EVERY) -> Difference:
        """What leads from one state to another, each a version, a `Moment` or a branch; the head if not given."""
        return await differences.diff(self._requester, left, right, branch=self.branch_name, prefix=prefix)

    async def blame(self, id_: str, path: str = pointer.ROOT, *, version: int | None = None) -> tuple[BlameLine, ...]:
        """For each leaf of a value, who wrote it last."""
        at = None if version is None else Version(version)
        return await past.blame(self._requester, id_, branch=self.branch_name, version=at, path=path)

    # ------------------------------------------------------------ overviews

    async def count(self, selector: Selector = EVERY, *, version: int | None = None) -> EntityCount:
        """How many entities there are: `(await space.count("urn:todo:*")).entities`. No value is fetched."""
        return await overviews.count(self._requester, selector, branch=self.branch_name, version=version)

    def prefixes(
        self, prefix: str = EVERY, *, separators: str = SEPARATORS, version: int | None = None
    ) -> Listing[PrefixCount]:
        """What ids under a prefix go on with, up to the next separator, and how many do: for a tree of ids."""
        return overviews.prefixes(
            self._requester, prefix, branch=self.branch_name, separators=separators, version=version
        )

    def previews(
        self, prefix: str = EVERY, *, shape: Shape = "preview", version: int | None = None
    ) -> Listing[EntityPreview]:
        """Everything under a prefix, by id, large values shortened; or, with the shape `ids`, without the values."""
        return overviews.previews(self._requester, prefix, branch=self.branch_name, shape=shape, version=version)

    async def histogram(
        self,
        *,
        by: HistogramBy = "version",
        buckets: int = 100,
        after: str | None = None,
        **filters: Unpack[HistogramFilters],
    ) -> Histogram:
        """How many commits this branch has, in buckets by version or by time; `branch=None` for all branches."""
        given = {"branch": self.branch_name} | filters
        return await overviews.histogram(self._requester, by=by, buckets=buckets, after=after, **given)

    # ------------------------------------------------------------ branches

    async def branch(self, name: str, *, create: bool = False, fork: int | None = None, note: Value = None) -> Space:
        """The same space on a branch; with `create` the branch is made here if it is not there yet."""
        checked = ids.branch_name(name)
        if create:
            await self._core.settled()
            with suppress(BranchExists):
                await self._branches.create(name, parent=self.branch_name, fork=fork, note=note)
                return Space(self._core, checked)
        if name != MAIN:
            known = {one.name: one for one in await self._branches.list(deleted=True)}
            if name not in known:
                raise UnknownBranch(branch=name)
            if create and known[checked].deleted is not None:
                raise BranchDeleted(branch=name)
        return Space(self._core, checked)

    async def branches(self, *, deleted: bool = False) -> Sequence[Branch]:
        """The branches of the space by name."""
        return await self._branches.list(deleted=deleted)

    async def delete_branch(self, name: str, *, note: Value = None) -> Receipt:
        """Ends a branch; it can still be read and merged from."""
        return await self._branches.delete(name, note=note)

    async def merge_into(self, target: str, **options: Unpack[MergeOptions]) -> MergeReport:
        """Brings what this branch has to another; `report.conflicts` lists what both sides changed."""
        await self._core.settled()
        return await merge.merge(self._requester, self.branch_name, target, **options)

    async def merge_from(self, source: str, **options: Unpack[MergeOptions]) -> MergeReport:
        """Brings what another branch has to this one."""
        await self._core.settled()
        return await merge.merge(self._requester, source, self.branch_name, **options)

    # ------------------------------------------------------------ taking back

    async def revert(self, versions: int | Iterable[int] = (), **options: Unpack[RevertOptions]) -> RevertReport:
        """Undoes commits by a new one; `Conflict` where later commits touched the same places."""
        await self._core.settled()
        return await undo.revert(self._requester, versions, branch=self.branch_name, **options)

    async def undo(self, *, note: Value = None) -> RevertReport | None:
        """Takes back the newest own commit of this client that is not undone; None if there is none."""
        await self._core.settled()
        return await self._undoing.undo(note=note)

    async def redo(self, *, note: Value = None) -> RevertReport | None:
        """Brings back what the last `undo` took; None after a new commit."""
        await self._core.settled()
        return await self._undoing.redo(note=note)

    async def erase(
        self,
        id_: str,
        versions: Iterable[int],
        *,
        entities: Mapping[str, Iterable[int]] | None = None,
        survivors: Mapping[str, Given] | None = None,
        blobs: Iterable[str] = (),
        note: Value = None,
    ) -> Erasure:
        """Destroys what an entity was at these versions, for good; history still verifies. Needs the role `own`.

        `entities` are further ones with their versions. The server destroys them with the same write.
        """
        return await erasure.erase(
            self._requester, id_, versions, entities=entities, survivors=survivors, blobs=blobs, note=note
        )

    async def compact(self, floor: int, *, note: Value = None) -> Compaction:
        """Removes what no state at or above a version needs. Needs the role `own`."""
        return await erasure.compact(self._requester, floor, note=note)

    # ------------------------------------------------------------ access

    async def delegate(
        self, audience: str, role: DelegableRole, *, prefixes: Sequence[str] = (EVERY,), expires: Expiry
    ) -> str:
        """A token that delegates rights to another identity until it expires; the receiver passes it to `connect`."""
        return self._delegator.delegate(
            DelegationTerms(audience=audience, role=role, prefixes=prefixes, expires=expires)
        )

    async def revoke(self, token: str) -> Receipt:
        """Takes back a token and all that were made from it. Needs `own`, but for an own access token."""
        return await self._delegator.revoke(token)

    async def _commit_roles(self, roles: Roles, basis: Version) -> None:
        """The access list is an entity: written whole, alone in its commit, on `main`.

        It may have been read at a version that the view has not reached. A server that is restored to where the view
        is would take that version for one of its own (RESUME-4), so none is declared that is later than the view.
        """
        nursery, history = self._session.nursery, self._core.history
        if nursery.to < basis:
            await self._core.catch_up()
        entity, encoded = EntityId(self.did), body.encode(roles)
        write = CommitWrite("set", entity, encoded, body.read_stored(encoded), None)
        plan = CommitPlan(MAIN, (write,), (PlannedRead(min(basis, nursery.to), entity),))
        await self._core.submit(plan, history=history).confirmed()

    # ------------------------------------------------------------ how it stands

    def status(self) -> SpaceStatus:
        """Whether it is connected, and what waits."""
        return self._core.status()

    def pending(self) -> Sequence[PendingCommit]:
        """Own commits that are not decided, the oldest first."""
        return self._core.pending()

    def rejected(self) -> Sequence[Refused]:
        """Own commits that were refused, until they are retried or dropped; a journal keeps them over restarts."""
        return list(self._session.notifier.rejected_commits.values())

    def on_rejected(self, callback: OnRejected) -> Callable[[], None]:
        """Calls it with each refused commit that nobody awaits; returns how to stop that.

        space.on_rejected(lambda refused: print(refused.message))

        It may be a coroutine function, which then runs in a task.
        """
        return self._session.notifier.on_rejected(callback)

    def on_lost(self, callback: OnLost) -> Callable[[], None]:
        """Calls it with each confirmed commit that the server, restored from a backup, no longer has."""
        return self._session.notifier.on_lost(callback)

    async def forget(self) -> None:
        """Deletes what is cached of this space on this device, say when a user logs out; returns once it is gone.

        Nothing more is cached until the app starts again. The journal, with undecided work, stays.
        """
        await self._session.forget()

    def on_head(self, callback: OnHead) -> Callable[[], None]:
        """Calls it with the newest version of the space, on whatever branch it was written; returns how to stop that.

        space.on_head(lambda version: print(version))

        The server sends it at once. One call may cover several versions. After a restore of the server the version
        may be lower than before.
        """
        return self._session.on_head(callback)

    def nudge(self) -> None:
        """Tries to connect at once, say after the machine has woken up."""
        self._core.link.nudge()

    async def connected(self, *, timeout: float | None = None) -> None:
        """Returns once the connection is open; `Unreachable`, or why the server refuses, after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._core.link.when_open()
        except TimeoutError:
            raise self._core.link.why_not_open() from None

    def __repr__(self) -> str:
        return f"Space({self.did}, branch {self.branch_name!r})"
