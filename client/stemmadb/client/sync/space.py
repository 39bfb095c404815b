"""A space on one branch, for apps that block: what they read, write and watch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar, Unpack

from stemmadb.client import space as async_space
from stemmadb.client import transactions
from stemmadb.client.journal.port import ConfirmedCommit
from stemmadb.client.reading import differences
from stemmadb.client.reading.branches import Branch
from stemmadb.client.reading.delegation import DelegableRole, Expiry
from stemmadb.client.reading.differences import Difference
from stemmadb.client.reading.entries import BlameLine, HistoryEntry, LogEntry, Receipt
from stemmadb.client.reading.erasure import Compaction, Erasure
from stemmadb.client.reading.merge import MergeOptions, MergeReport
from stemmadb.client.reading.overviews import EntityCount, EntityPreview, Histogram, HistogramFilters, PrefixCount
from stemmadb.client.reading.past import LogFilters
from stemmadb.client.reading.plain import Given
from stemmadb.client.reading.queries import QueryResult, Schema, Selector
from stemmadb.client.reading.times import When
from stemmadb.client.reading.undo import RevertOptions, RevertReport
from stemmadb.client.reading.windows import WindowOptions
from stemmadb.client.space import SEPARATORS, TRIES_MAX
from stemmadb.client.status import SpaceStatus
from stemmadb.client.sync.blobs import Blobs
from stemmadb.client.sync.callbacks import CallbackThread
from stemmadb.client.sync.calls import Errands
from stemmadb.client.sync.live_map import LiveMap
from stemmadb.client.sync.patience import within
from stemmadb.client.sync.portal import Portal
from stemmadb.client.sync.reading import Listing, Moment
from stemmadb.client.sync.refusals import PendingCommit, Refused
from stemmadb.client.sync.structure import Acl, Tags
from stemmadb.client.sync.transactions import Transaction
from stemmadb.client.sync.watches import Watch
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values.ids import BranchName, Did, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages.reading import HistogramBy, Order, Shape

T = TypeVar("T")
Side: TypeAlias = differences.Side | Moment
"""A version or a time of the branch that is asked, the head of another branch by its name, what `at(...)` gave, or
None: the head."""


class Space:
    """One space, seen on one branch. `branch` gives the same space on another.

    Reads of what is watched need no server, and show own writes at once. Everything else asks the server, and shows
    own pending writes on top. Any thread may use it.
    """

    def __init__(self, space: async_space.Space, portal: Portal, callbacks: CallbackThread) -> None:
        self._space = space
        self._portal = portal
        self._callbacks = callbacks
        self.did: Did = space.did
        self.branch_name: BranchName = space.branch_name
        self.blobs = Blobs(space.blobs, portal)
        """`space.blobs.put(data)`, `space.blobs.get(ref)`."""
        self.acl = Acl(space.acl, portal)
        """`space.acl.get()`, `space.acl.set(did, "write")`."""
        self.tags = Tags(space.tags, portal)
        """`space.tags.create("v1")`, `space.tags.list()`."""

    # ------------------------------------------------------------ writing

    def transaction(self, *, note: Value = None) -> Transaction:
        """One commit: `with space.transaction() as tx: tx.set(...)`. In the view when the block ends."""
        return Transaction(self._portal.touch(self._space.transaction, note=note), self._portal)

    def transact(self, fn: Callable[[Transaction], T], *, note: Value = None, tries: int = TRIES_MAX) -> T:
        """Runs `fn(tx)` on this thread and waits until its commit is confirmed; runs it again on the current values
        on a conflict.

        def count(tx):
            todo = tx.get("urn:todo:1")
            tx.update("urn:todo:1", todo | {"tries": todo["tries"] + 1})

        space.transact(count)
        """

        async def work(errands: Errands) -> T:
            async def once(tx: transactions.Transaction) -> T:
                return _plain(await errands.run(fn, Transaction(tx, self._portal)))

            return await self._space.transact(once, note=note, tries=tries)

        return self._portal.converse(work)

    def settled(self, *, timeout: float | None = None) -> None:
        """Returns once every own commit has been decided; `TimedOut` after `timeout` seconds."""
        self._portal.call(lambda: within(timeout, self._space.settled()))

    # ------------------------------------------------------------ reading

    def get(self, id_: str, path: str = "") -> Value:
        """The value, or the part of it at `path`; None if there is none. Own writes are seen at once."""
        return self._portal.call(self._space.get, id_, path)

    def list(self, prefix: str = EVERY) -> dict[str, Value]:
        """Everything under a prefix such as `urn:todo:*`, by id."""
        return self._portal.call(self._space.list, prefix)

    def query(
        self,
        selector: Selector = EVERY,
        *,
        schema: Schema | None = None,
        path: str = "",
        **window: Unpack[WindowOptions],
    ) -> QueryResult:
        """What matches, and what its links lead to: `space.query("urn:todo:*", schema={...})`.

        `order="-/rank"` puts it in order, `limit=20` takes the first, and `after=found.after` the next ones.
        """
        return self._portal.call(self._space.query, selector, schema=schema, path=path, **window)

    def watch(
        self,
        selector: Selector = EVERY,
        *,
        schema: Schema | None = None,
        path: str = "",
        **window: Unpack[WindowOptions],
    ) -> Watch:
        """The same, kept up to date: `for change in space.watch("urn:todo:*", schema={...}): ...`."""
        watch = self._portal.touch(self._space.watch, selector, schema=schema, path=path, **window)
        return Watch(watch, self._portal)

    def live(
        self,
        selector: Selector = EVERY,
        *,
        schema: Schema | None = None,
        path: str = "",
        **window: Unpack[WindowOptions],
    ) -> LiveMap:
        """The same as a mapping that is always current: `with space.live("urn:todo:*") as todos: todos.ready()`."""
        live = self._portal.touch(self._space.live, selector, schema=schema, path=path, **window)
        return LiveMap(live, self._portal, self._callbacks)

    # ------------------------------------------------------------ the past

    def at(self, *, version: int | None = None, time: When | None = None, tag: str | None = None) -> Moment:
        """Any past state: `space.at(version=3).get("urn:todo:1")`."""
        return Moment(self._portal.touch(self._space.at, version=version, time=time, tag=tag), self._portal)

    def history(self, id_: str, *, version: int | None = None, order: Order = "newest") -> Listing[HistoryEntry]:
        """The changes of an entity: `for entry in space.history("urn:todo:1"): ...`."""
        return Listing(self._portal.touch(self._space.history, id_, version=version, order=order), self._portal)

    def log(self, **filters: Unpack[LogFilters]) -> Listing[LogEntry]:
        """The commits of this branch, newest first; `branch=None` for those of all branches."""
        return Listing(self._portal.touch(lambda: self._space.log(**filters)), self._portal)

    def diff(self, left: Side, right: Side = None, *, prefix: str = EVERY) -> Difference:
        """What leads from one state to another, each a version, a `Moment` or a branch; the head if not given."""
        return self._portal.call(self._space.diff, _side(left), _side(right), prefix=prefix)

    def blame(self, id_: str, path: str = "", *, version: int | None = None) -> tuple[BlameLine, ...]:
        """For each leaf of a value, who wrote it last."""
        return self._portal.call(self._space.blame, id_, path, version=version)

    # ------------------------------------------------------------ overviews

    def count(self, selector: Selector = EVERY, *, version: int | None = None) -> EntityCount:
        """How many entities there are: `space.count("urn:todo:*").entities`. No value is fetched."""
        return self._portal.call(self._space.count, selector, version=version)

    def prefixes(
        self, prefix: str = EVERY, *, separators: str = SEPARATORS, version: int | None = None
    ) -> Listing[PrefixCount]:
        """What ids under a prefix go on with, up to the next separator, and how many do: for a tree of ids."""
        found = self._portal.touch(self._space.prefixes, prefix, separators=separators, version=version)
        return Listing(found, self._portal)

    def previews(
        self, prefix: str = EVERY, *, shape: Shape = "preview", version: int | None = None
    ) -> Listing[EntityPreview]:
        """Everything under a prefix, by id, large values shortened; or, with the shape `ids`, without the values."""
        return Listing(self._portal.touch(self._space.previews, prefix, shape=shape, version=version), self._portal)

    def histogram(
        self,
        *,
        by: HistogramBy = "version",
        buckets: int = 100,
        after: str | None = None,
        **filters: Unpack[HistogramFilters],
    ) -> Histogram:
        """How many commits this branch has, in buckets by version or by time; `branch=None` for all branches."""
        return self._portal.call(lambda: self._space.histogram(by=by, buckets=buckets, after=after, **filters))

    # ------------------------------------------------------------ branches

    def branch(self, name: str, *, create: bool = False, fork: int | None = None, note: Value = None) -> Space:
        """The same space on a branch; with `create` the branch is made here if it is not there yet."""
        branch = self._portal.call(self._space.branch, name, create=create, fork=fork, note=note)
        return Space(branch, self._portal, self._callbacks)

    def branches(self, *, deleted: bool = False) -> Sequence[Branch]:
        """The branches of the space by name."""
        return self._portal.call(self._space.branches, deleted=deleted)

    def delete_branch(self, name: str, *, note: Value = None) -> Receipt:
        """Ends a branch; it can still be read and merged from."""
        return self._portal.call(self._space.delete_branch, name, note=note)

    def merge_into(self, target: str, **options: Unpack[MergeOptions]) -> MergeReport:
        """Brings what this branch has to another; `report.conflicts` lists what both sides changed."""
        return self._portal.call(lambda: self._space.merge_into(target, **options))

    def merge_from(self, source: str, **options: Unpack[MergeOptions]) -> MergeReport:
        """Brings what another branch has to this one."""
        return self._portal.call(lambda: self._space.merge_from(source, **options))

    # ------------------------------------------------------------ taking back

    def revert(self, versions: int | Iterable[int] = (), **options: Unpack[RevertOptions]) -> RevertReport:
        """Undoes commits by a new one; `Conflict` where later commits touched the same places."""
        return self._portal.call(lambda: self._space.revert(versions, **options))

    def undo(self, *, note: Value = None) -> RevertReport | None:
        """Takes back the newest own commit of this client that is not undone; None if there is none."""
        return self._portal.call(self._space.undo, note=note)

    def redo(self, *, note: Value = None) -> RevertReport | None:
        """Brings back what the last `undo` took; None after a new commit."""
        return self._portal.call(self._space.redo, note=note)

    def erase(
        self,
        id_: str,
        versions: Iterable[int],
        *,
        entities: Mapping[str, Iterable[int]] | None = None,
        survivors: Mapping[str, Given] | None = None,
        blobs: Iterable[str] = (),
        note: Value = None,
    ) -> Erasure:
        """Destroys what an entity was at these versions, for good; history still verifies. Needs the role `own`."""
        return self._portal.call(
            self._space.erase, id_, versions, entities=entities, survivors=survivors, blobs=blobs, note=note
        )

    def compact(self, floor: int, *, note: Value = None) -> Compaction:
        """Removes what no state at or above a version needs. Needs the role `own`."""
        return self._portal.call(self._space.compact, floor, note=note)

    # ------------------------------------------------------------ access

    def delegate(
        self, audience: str, role: DelegableRole, *, prefixes: Sequence[str] = (EVERY,), expires: Expiry
    ) -> str:
        """A token that delegates rights to another identity until it expires; the receiver passes it to `connect`."""
        return self._portal.call(self._space.delegate, audience, role, prefixes=prefixes, expires=expires)

    def revoke(self, token: str) -> Receipt:
        """Takes back a token and all that were made from it. Needs the role `own`."""
        return self._portal.call(self._space.revoke, token)

    # ------------------------------------------------------------ how it stands

    def status(self) -> SpaceStatus:
        """Whether it is connected, and what waits."""
        return self._portal.touch(self._space.status)

    def pending(self) -> Sequence[PendingCommit]:
        """Own commits that are not decided, the oldest first."""
        return [PendingCommit(one, self._portal) for one in self._portal.touch(self._space.pending)]

    def rejected(self) -> Sequence[Refused]:
        """Own commits that were refused, until they are retried or dropped; a journal keeps them over restarts."""
        return [Refused(one, self._portal) for one in self._portal.touch(self._space.rejected)]

    def on_rejected(self, callback: Callable[[Refused], object]) -> Callable[[], None]:
        """Calls it with each refused commit that nobody awaits; returns how to stop that.

        Callbacks are called one after the other on a thread of their own, and may use the database.
        """
        callbacks, portal = self._callbacks, self._portal
        stop = portal.touch(self._space.on_rejected, lambda one: callbacks.call(callback, Refused(one, portal)))
        return partial(_stop, portal, stop)

    def on_lost(self, callback: Callable[[ConfirmedCommit], object]) -> Callable[[], None]:
        """Calls it with each confirmed commit that the server, restored from a backup, no longer has.

        It is called where those of `on_rejected` are.
        """
        stop = self._portal.touch(self._space.on_lost, lambda one: self._callbacks.call(callback, one))
        return partial(_stop, self._portal, stop)

    def forget(self) -> None:
        """Deletes what is cached of this space on this device, say when a user logs out; returns once it is gone.

        Nothing more is cached until the app starts again. The journal, with undecided work, stays.
        """
        self._portal.call(self._space.forget)

    def on_head(self, callback: Callable[[Version], object]) -> Callable[[], None]:
        """Calls it with the newest version of the space, on whatever branch it was written; returns how to stop that.

        It is called where those of `on_rejected` are. One call may cover several versions.
        """
        stop = self._portal.touch(self._space.on_head, lambda version: self._callbacks.call(callback, version))
        return partial(_stop, self._portal, stop)

    def nudge(self) -> None:
        """Tries to connect at once, say after the machine has woken up."""
        self._portal.touch(self._space.nudge)

    def connected(self, *, timeout: float | None = None) -> None:
        """Returns once the connection is open; `Unreachable`, or why the server refuses, after `timeout` seconds."""
        self._portal.call(self._space.connected, timeout=timeout)

    def __repr__(self) -> str:
        return repr(self._space)


def _plain(result: T) -> T:
    """`TypeError` for a coroutine: nobody runs it here, and nothing would be written."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("transact() takes a plain function here; a coroutine function is for stemmadb.client")
    return result


def _stop(portal: Portal, stop: Callable[[], None]) -> None:
    """After the end there is nothing to stop."""
    if not portal.is_closed:
        portal.touch(stop)


def _side(side: Side) -> differences.Side:
    return side._then if isinstance(side, Moment) else side
