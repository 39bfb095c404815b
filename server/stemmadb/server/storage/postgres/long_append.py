"""The longer form of an append: a transaction of several statements, for all that one statement cannot do.

Structure, destruction, snapshots, and batches too large for one statement. Each run of the batch is appended by the
same statement as ordinary commits are, from where the one before it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.storage import positions
from stemmadb.server.storage.port import AcceptedWrite, AppendBatch, LogMoved, Snapshot, StorageFailed, no_snapshots
from stemmadb.server.storage.postgres import append_statement, destroy, structure
from stemmadb.server.storage.postgres.append_statement import Move
from stemmadb.server.storage.postgres.claim_rules import Deposed
from stemmadb.server.storage.postgres.claims import Claimed
from stemmadb.server.storage.postgres.connection import PgConnection
from stemmadb.server.storage.postgres.numbers import OwnedNumbers
from stemmadb.server.storage.postgres.rows import SpaceRows

RUN_BYTES_MAX: Final = 16 << 20
"""What one statement carries; PostgreSQL takes up to 1 GB, and holds it several times meanwhile."""
RUN_FACTS_MAX: Final = 20_000

_OWN: Final = "SELECT owner, term, version FROM tip WHERE space = %s::int FOR NO KEY UPDATE"
_SNAPSHOT: Final = (
    "INSERT INTO snapshot (space, place, entity, branch, body) "
    "SELECT space, place, entity, branch, %s FROM fact WHERE space = %s::int AND place = %s "
    "ON CONFLICT (space, place) DO UPDATE SET body = excluded.body"
)


def is_plain(batch: AppendBatch) -> bool:
    """Whether one statement can append it: at least one commit, all of them on a branch, and nothing beside them."""
    return (
        bool(batch.writes)
        and batch.snapshots is no_snapshots
        and all(
            entry.destroyed is None and entry.commit.arguments == NO_ARGUMENTS and entry.commit.branch is not None
            for entry in batch.writes
        )
    )


def check_owner(connection: PgConnection, numbers: OwnedNumbers, claimed: Claimed) -> int:
    """Locks the end of the space until the transaction ends; returns the version."""
    ((owner, term, version),) = connection.rows(_OWN, (numbers.space,))
    if (owner, term) != (claimed.owner, claimed.term):
        raise Deposed("another node has claimed the space")
    return int(version)


def write(connection: PgConnection, numbers: OwnedNumbers, claimed: Claimed, batch: AppendBatch) -> None:
    """Inside the caller's transaction. If it fails, the numbers are of no use any more."""
    snapshots = batch.snapshots()
    version = check_owner(connection, numbers, claimed)
    if version != batch.expected:
        raise LogMoved(f"the log is at version {version} and not at {batch.expected}")
    for run in _runs(batch.writes):
        _write_run(connection, numbers, claimed, run)
    store_snapshots(connection, numbers, snapshots)


def _write_run(
    connection: PgConnection, numbers: OwnedNumbers, claimed: Claimed, run: Sequence[AcceptedWrite]
) -> None:
    rows = SpaceRows(numbers, connection)
    rows.add(run)
    move = move_of(numbers, claimed, run)
    done = append_statement.append(connection, [move], rows.rows)
    if not done.moved:
        raise StorageFailed("a commit does not follow the end of the log")
    space = numbers.space
    rows.learn(*(done.renumbered.get((kind, space), {}) for kind in ("e", "s", "p")))
    structure.touch(connection, numbers, run)
    last = run[-1]
    if last.commit.arguments != NO_ARGUMENTS:
        structure.take(connection, numbers, last.commit)
    if last.destroyed is not None:
        destroy.destroy(connection, space, last.destroyed)


def move_of(numbers: OwnedNumbers, claimed: Claimed, writes: Sequence[AcceptedWrite]) -> Move:
    first, last = writes[0].commit, writes[-1].commit
    versions = [entry.commit.version for entry in writes]
    assert versions == list(range(first.version, first.version + len(writes))), "a batch has no gap"
    return Move(
        numbers.space,
        claimed.owner,
        claimed.term,
        first.previous,
        first.version - 1,
        Hash(last.hash),
        last.version,
        last.time,
    )


def _runs(batch: Sequence[AcceptedWrite]) -> Iterator[Sequence[AcceptedWrite]]:
    """Parts that end with each entry that changes the structure, or destroys: later ones must see it."""
    start = size = facts = 0
    for end, entry in enumerate(batch, 1):
        size += sum([len(fact.body or b"") for fact in entry.facts])
        facts += len(entry.facts)
        is_special = entry.destroyed is not None or entry.commit.arguments != NO_ARGUMENTS
        if is_special or end == len(batch) or size > RUN_BYTES_MAX or facts > RUN_FACTS_MAX:
            yield batch[start:end]
            start, size, facts = end, 0, 0


def store_snapshots(connection: PgConnection, numbers: OwnedNumbers, snapshots: Iterable[Snapshot]) -> None:
    """Entity and branch are those of the fact, which must be there."""
    for snapshot in snapshots:
        values = (snapshot.body, numbers.space, positions.number_of(snapshot.place))
        assert connection.change(_SNAPSHOT, values) == 1, "a snapshot of a fact that is not there"
