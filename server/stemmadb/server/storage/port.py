"""The storage port: what the engine asks of a backend, and what every backend promises.

The log is the only truth. A backend keeps it, appends to it by compare-and-append, and answers for any moment of it.
Everything else it keeps (heads, branches, tags, indexes, snapshots) is a fold of the log, changed in the same
transaction.

What every backend promises, and the conformance suite holds it to:

- `append` is all or nothing and calls `done` once, when the batch is durable (COMMIT-1) or has failed. It fails with
  `LogMoved`, writing nothing, if the log is not at the version expected: nobody above may assume to be alone.
- A `LogReader` is one read view: all its answers are as of one version, however the log moves on meanwhile. It sees
  only what is durable, and everything that was when it was opened.
- `append` is called on an event loop and does not block it: what blocks runs in the workers the log was opened with.
  All other calls block, and are made from worker threads. One call at a time uses the writing side of a log (`append`
  until `done` is called, `store_snapshots`, `put_blob`, `http_key`, `renew_blob`, `drop_blobs`, `scrub`, `close`);
  any number read meanwhile.
- Failures are `StorageFailed` or `DiskFull`, and nothing else that is not a `StemmaError`. After one the log must
  be closed and opened again; whether the batch was written is for the reopened log to say (COMMIT-10).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.commit_record import Commit, Identity
from stemmadb.protocol.model.log.facts import Fact, FactKind
from stemmadb.protocol.model.log.state import BranchState, KnownCommit
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Did, EntityId, Hash, Local, TimeMs, Version

T = TypeVar("T")

Order = Literal["newest", "oldest"]


class LogMoved(Exception):
    """The log is not where the writer thought: another one has appended. Read the tail and decide again."""


class StorageFailed(Exception):
    """The storage had an error; what was being written may or may not be there."""


class DiskFull(StorageFailed):
    """There is no room; nothing was written. Reads go on."""


class NoDescriptors(StorageFailed):
    """The process has no file descriptor left; nothing was opened. Closing other logs makes room."""


class OwnedElsewhere(StorageFailed):
    """Another node owns the space, and answers for it at this address."""

    def __init__(self, address: str) -> None:
        super().__init__(f"the space is served by the node at {address or 'an unknown address'}")
        self.address = address


Done: TypeAlias = Callable[[BaseException | None], None]
"""Called once: with None when a write is durable, or with what it failed with."""


class Worker(Protocol):
    """Runs blocking work elsewhere, and gives its result, or its exception, back on the event loop of the caller."""

    def run(self, work: Callable[[], T]) -> Awaitable[T]: ...


FACTS_MAX: Final = (1 << 20) - 1
"""Of one commit, in any storage."""


class FactPosition(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where a fact is in the log (MODEL-1)."""

    version: Version
    index: int


class Tip(msgspec.Struct, frozen=True):
    """The end of the log; the hash of an empty one is the genesis of its space."""

    version: Version
    hash: Hash
    time: TimeMs


class Destroyed(msgspec.Struct, frozen=True):
    """What an erasure or a compaction destroys in the same transaction that appends it (ERASE-1, COMPACT-1).

    Facts and notes lose body and salt and keep digest and hash. `snapshots_of` are entities all of whose snapshots
    go, `snapshots_below` a version below which all go.
    """

    facts: Collection[FactPosition] = ()
    notes: Collection[Version] = ()
    snapshots_of: Collection[EntityId] = ()
    snapshots_below: Version = Version(0)
    blobs: Collection[Hash] = ()
    http_key: bool = False
    """Whether the secret of HTTP goes too: with it, guesses of what was erased could be checked (HTTP-9)."""


class HttpKey(msgspec.Struct, frozen=True):
    """The secret by which HTTP makes nonces, and the version at which it was made (HTTP-9)."""

    key: bytes
    since: Version


class AcceptedWrite(msgspec.Struct, frozen=True):
    """One accepted write: its record, its facts in order, and what it destroys."""

    commit: Commit
    facts: tuple[Fact, ...] = ()
    destroyed: Destroyed | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """The whole value of an entity right after a fact of it on that branch; redundant, can be dropped (SNAP-1)."""

    branch: BranchName
    id: EntityId
    place: FactPosition
    body: bytes


def no_snapshots() -> Sequence[Snapshot]:
    return ()


class AppendBatch(msgspec.Struct, frozen=True):
    """Writes that go right after the expected version, all of them or none, and snapshots that go along with them."""

    expected: Version
    writes: Sequence[AcceptedWrite]
    snapshots: Callable[[], Sequence[Snapshot]] = no_snapshots
    """Called where the batch is written, off the event loop: encoding a large value takes its time."""


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A stored fact as far as its state is concerned; `parent` and `digest`, which cost a look-up, are left out."""

    version: Version
    index: int
    branch: BranchName
    id: EntityId
    kind: FactKind
    hash: Hash
    body: bytes | None


class Replay(msgspec.Struct, frozen=True):
    """What an entity is replayed from: facts of a lineage, oldest first, none missing between the first and the last.

    The last is the newest fact of the lineage. One of them needs none before it (`replay.begins_here`), or a snapshot
    was taken right after it, or they are all facts there are. One of them at least is not a checkpoint.
    """

    snapshot: Snapshot | None
    facts: tuple[Recorded, ...]

    @property
    def weight(self) -> int:
        """The bytes of its values."""
        snapshot = 0 if self.snapshot is None else len(self.snapshot.body)
        return snapshot + sum(len(fact.body or b"") for fact in self.facts)


class BoundedReplays(NamedTuple):
    """What a bounded reading found, and the ids that it did not come to, in their order."""

    found: dict[EntityId, Replay]
    unread: tuple[EntityId, ...] = ()


StateKind: TypeAlias = Literal["value", "absent", "erased"]


class LastFact(msgspec.Struct, frozen=True, gc=False):
    """The newest fact of an entity in a lineage, and what state it leaves, without its value.

    `state` is None where that takes more than a look at the newest facts: then it is found by a replay.
    """

    version: Version
    index: int
    hash: Hash
    state: StateKind | None


class StoredTag(msgspec.Struct, frozen=True):
    name: str
    branch: BranchName
    version: Version


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which commits `log` lists; `since` and `until` are times, both included; all that is given must hold.

    `branch`: commits made on it, and space-wide ones that wrote a fact on it. `prefix`: with a fact of an entity
    under it. `after` is the last version of the page before, in the order asked for.
    """

    branch: BranchName | None = None
    author: Did | None = None
    session: bytes | None = None
    prefix: str | None = None
    since: TimeMs | None = None
    until: TimeMs | None = None
    upto: Version | None = None
    after: Version | None = None
    order: Order = "newest"
    structural: bool = False
    """Only those with arguments: everything but ordinary commits."""
    ordinary: bool = False
    """Only those without."""


class StoredBlob(msgspec.Struct, frozen=True):
    """A blob that is there. Small ones are in the database, large ones in a file named by their hash."""

    hash: Hash
    size: int
    content_type: str
    created: TimeMs
    in_file: bool


class OpenedBlob(NamedTuple):
    """A large blob that is being read: its size, and a stamp that is another one after any change."""

    stream: BinaryIO
    size: int
    stamp: tuple[int, ...]


class BlobName(NamedTuple):
    """A large blob by its name, and when it was put."""

    hash: Hash
    put_at: TimeMs


class LargeBlobs(Protocol):
    """The bytes of a space's blobs that are not in the database. Calls block; any thread may make them.

    Failures are `StorageFull` and `Unavailable`; `BlobMismatch` where a blob is not there.
    """

    @property
    def is_shared(self) -> bool:
        """Whether several processes put blobs there: one without a row may be about to get it."""
        ...

    def put(self, hash_: Hash, file: Path, /) -> None:
        """Takes over a file that was verified and synced; returns once it is durable under its name."""
        ...

    def open(self, hash_: Hash, offset: int = 0, /) -> AbstractContextManager[OpenedBlob]:
        """The bytes from an offset on."""
        ...

    def remove(self, hashes: Iterable[Hash], /) -> int:
        """Removes blobs whose rows are gone, for good; how many there were."""
        ...

    def names(self, after: Hash | None = None, /) -> Sequence[BlobName]:
        """All blobs there are, in the order of their references, from those after one on."""
        ...


class LogReader(Protocol):
    """One read view of a log."""

    # -- structure

    def tip(self) -> Tip: ...

    def branch(self, name: str) -> BranchState | None: ...

    def branch_states(self, names: Iterable[str]) -> dict[str, BranchState]:
        """Those of the branches that there are, with one question."""
        ...

    def branches(self) -> list[BranchState]:
        """All, deleted ones included, by name."""
        ...

    def tags(self) -> list[StoredTag]:
        """Those not deleted, by name."""
        ...

    def floor(self) -> Version:
        """The floor of the highest compaction; 0 if there is none (COMPACT-1)."""
        ...

    def last_write(self, branch: BranchName, upto: Version) -> Version:
        """The last commit at or below a version that was made on the branch or wrote a fact on it; 0 if none."""
        ...

    def last_writes(self, asked: Iterable[tuple[BranchName, Version]]) -> dict[tuple[BranchName, Version], Version]:
        """`last_write` of each, with one question."""
        ...

    def version_at(self, time: TimeMs) -> Version:
        """The last commit at or before a time; 0 if none."""
        ...

    def versions_at(self, times: Sequence[TimeMs]) -> list[Version]:
        """`version_at` of many times, which rise."""
        ...

    # -- exactly once

    def accepted(self, identities: Iterable[Identity]) -> dict[Identity, KnownCommit]:
        """Those of the identities that were accepted (COMMIT-5, COMMIT-11)."""
        ...

    def highest_locals(self, sessions: Iterable[tuple[Did, bytes]]) -> dict[tuple[Did, bytes], Local]:
        """The highest accepted local of each session, 0 if none, with one question."""
        ...

    # -- delegations

    def revoked(self, names: Iterable[Hash] | None = None) -> dict[Hash, Version]:
        """Those of the delegations that were revoked, each with the first version that did; all there are if None.

        Costs what is asked for, however long the log is.
        """
        ...

    # -- entities

    def replays(
        self, spans: Sequence[Span], ids: Iterable[EntityId], since: Mapping[EntityId, Version] | None = None
    ) -> dict[EntityId, Replay]:
        """For each entity with a fact in the spans, what the state there is replayed from.

        The spans are a lineage, newest first (`branch.lineage`). No more than about one snapshot and the facts from
        it on are read, however long the history is (HISTORY-3): the facts begin with the last that `begins_here`, or
        with the one after which the last snapshot was taken, whichever is later. An entity in `since` gets in
        addition every fact later than that version, so that its recent changes are known; those before the beginning
        may lack their body unless they are patches, since they change the whole whatever they say (COMMIT-2).
        """
        ...

    def replays_upto(self, spans: Sequence[Span], ids: Iterable[EntityId], bytes_max: int) -> BoundedReplays:
        """The same in the order of the ids, each once, until so many bytes of values were read.

        An entity is read whole or not at all, and the first one always: so at most `bytes_max` and two entities more.
        """
        ...

    def last_facts(self, spans: Sequence[Span], ids: Iterable[EntityId]) -> dict[EntityId, LastFact]:
        """For each entity with a fact in the spans the newest one. Reads no value (`last_facts.from_replays`)."""
        ...

    def ids(self, prefix: str, after: EntityId | None, limit: int) -> list[EntityId]:
        """Entities under a prefix that were ever written, on any branch, in the order of their UTF-8 bytes."""
        ...

    def changed(self, spans: Sequence[Span], prefix: str = "") -> Iterator[EntityId]:
        """The entities under a prefix with a fact in the spans, each once.

        Costs what was written on those branches in those spans, and not what there is.
        """
        ...

    def changed_after(self, spans: Sequence[Span], prefix: str, after: Version, limit: int) -> list[EntityId]:
        """At most `limit` entities under the prefix with a fact in the spans that is later than a version."""
        ...

    # -- history

    def log(self, wanted: LogFilter, limit: int) -> list[Commit]:
        """Commits that pass the filter, in its order."""
        ...

    def log_times(self, wanted: LogFilter, limit: int) -> list[tuple[Version, TimeMs]]:
        """The versions and times of commits that pass the filter, in its order."""
        ...

    def times(self, versions: Iterable[Version]) -> dict[Version, TimeMs]:
        """When the commits were made."""
        ...

    def hashes(self, versions: Iterable[Version]) -> dict[Version, Hash]:
        """Of the commits that are there. Reads no fact, of which a commit may have very many."""
        ...

    def facts(self, versions: Iterable[Version]) -> dict[Version, tuple[Fact, ...]]:
        """The facts of each commit, in order, whole; none for a version without."""
        ...

    def facts_of(
        self,
        id_: EntityId,
        spans: Sequence[Span] | None = None,
        *,
        order: Order = "oldest",
        after: FactPosition | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """The facts of an entity in the spans, or on all branches; `after` is the last place of the page before."""
        ...

    def authors(self, versions: Iterable[Version]) -> dict[Version, Did]: ...

    def commits(self, versions: Iterable[Version]) -> dict[Version, Commit]: ...

    def history(self, after: Version = EMPTY_SPACE) -> Iterator[tuple[Commit, tuple[Fact, ...]]]:
        """Every commit after a version with its facts, in order, a bounded number in memory at a time."""
        ...

    # -- snapshots and blobs

    def snapshots(self) -> Iterator[Snapshot]: ...

    def blob(self, hash_: Hash) -> StoredBlob | None: ...

    def blob_data(self, hash_: Hash) -> bytes | None:
        """The bytes of a blob kept in the database; None if it is in a file or not there."""
        ...

    def blobs(self) -> Iterator[StoredBlob]: ...


class SpaceLog(Protocol):
    """The log of one space, open."""

    @property
    def space(self) -> Did: ...

    @property
    def is_alone(self) -> bool:
        """Whether nobody else can append while it is open, so that a decision need not ask for the tail."""
        ...

    @property
    def is_unfounded(self) -> bool:
        """Whether nothing of the space is stored yet, so that opening it again has to make it."""
        ...

    @property
    def directory(self) -> Path | None:
        """Where files of the space that are not in the database belong; None for a backend without files."""
        ...

    @property
    def large_blobs(self) -> LargeBlobs | None:
        """Where large blobs are; None if there is no place but the database."""
        ...

    @property
    def blob_data_max(self) -> int | None:
        """The most bytes of a blob that the database takes; None for any number."""
        ...

    def append(self, batch: AppendBatch, done: Done, /) -> None:
        """Appends the batch right after the expected version, all or nothing.

        Calls `done` once, on the event loop: when the batch is durable and any reader that is opened sees it, or with
        what it failed with. That is `LogMoved` if the log is elsewhere; a batch without writes asks just that.
        Snapshots go along without a sync of their own; a snapshot of a fact that is not there is an internal error
        of the caller.
        """
        ...

    def store_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        """Stores snapshots when there is nothing to append."""
        ...

    def put_blob(self, blob: StoredBlob, data: bytes | None) -> None:
        """Keeps a blob, with its data unless that is in a file; a blob that is there already stays as it is."""
        ...

    def http_key(self, fresh: bytes) -> HttpKey:
        """The secret of HTTP; `fresh` from now on if there is none (HTTP-9)."""
        ...

    def renew_blob(self, hash_: Hash, created: TimeMs) -> bool:
        """The blob was uploaded again, and is safe from then on (BLOB-2); False if it is not there."""
        ...

    def drop_blobs(self, hashes: Collection[Hash]) -> None: ...

    def scrub(self) -> None:
        """Leaves no trace, in any file of the log, of bytes that were destroyed or dropped (ERASE-1).

        Owed after an append that destroyed something; a log that was closed before it was done says so when it is
        opened again (`owes_scrub`). Where files belong to a database and not to the log, the log owes nothing, and
        the database's operator scrubs.
        """
        ...

    @property
    def owes_scrub(self) -> bool: ...

    def is_unwritten(self, id_: EntityId) -> bool:
        """Whether memory alone knows that no durable commit has written the entity, on whatever branch.

        False where memory does not know. Called on the event loop: nothing is read.
        """
        ...

    def reader(self) -> AbstractContextManager[LogReader]:
        """A read view at the end of the log as it is now."""
        ...

    def close(self) -> None: ...


class Storage(Protocol):
    """A backend: all spaces of a data directory or a database."""

    def spaces(self) -> list[Did]: ...

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> SpaceLog:
        """The log of a space; `UnknownSpace` if there is none and it is not to be made.

        Appends that block run in `workers`. Without workers `append` blocks and calls `done` before it returns, for
        commands that have no event loop (`blocking.append`). `NoDescriptors` if it cannot be opened before others are
        closed. A backend may make no file before the first write.
        """
        ...

    def close(self) -> None: ...
