"""Between the nursery and the journal: what is kept of a commit, and what is read back when an app starts again."""

from __future__ import annotations

from stemmadb.client.journal.port import CommitBase, ConfirmedCommit, JournaledCommit, JournalState
from stemmadb.client.nursery.entities import ABSENT, Absent, CachedEntity
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.nursery.outcomes import Confirmation
from stemmadb.client.nursery.pending import Pending, restored
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.json_values import Value


def journaled(pending: Pending, nursery: Nursery) -> JournaledCommit:
    """The commit as it is sent, with the values its patches were made on, so that a restart can show it offline."""
    return JournaledCommit(pending.name, pending.nonce, pending.content, tuple(_bases(pending, nursery)))


def _bases(pending: Pending, nursery: Nursery) -> list[CommitBase]:
    found = []
    for id_, indexes in pending.by_id.items():
        if pending.writes[indexes[0]].op == "patch":
            cached = nursery.beneath((pending.branch, id_), pending)
            if cached is not None:
                value = None if cached.value is ABSENT else body.encode(cached.value)
                as_of = nursery.to if cached.as_of is None else cached.as_of
                found.append(CommitBase(pending.branch, id_, cached.version, cached.hash, as_of, value))
    return found


def confirmed(one: Confirmation) -> ConfirmedCommit:
    return ConfirmedCommit(one.pending.name, one.version, one.hash, one.pending.content)


def restore(nursery: Nursery, state: JournalState) -> None:
    """Puts the undecided commits of an earlier run back, on what they lay on (NURSERY-5)."""
    if state.standing is not None:
        nursery.stand_at(*state.standing)
    for one in state.pending:
        pending = restored(one.name, nonce=one.nonce, content=one.content)
        refusal = nursery.add(pending, [(base.id, _cached(base)) for base in one.bases])
        assert refusal is None, "nothing was refused yet in this run"


def _cached(base: CommitBase) -> CachedEntity:
    value: Value | Absent = ABSENT if base.body is None else body.read_stored(base.body)
    return CachedEntity(value, base.version, base.hash, base.as_of)
