"""Whether the declared reads of a proposal still hold; all that do not are named together (COMMIT-2, COMMIT-4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stemmadb.protocol.errors import Conflict, Dependency, FutureVersion
from stemmadb.protocol.model.access import access_roles
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.commit.draft import BatchDraft
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import PendingName, Read
from stemmadb.protocol.model.commit.stale_reads import Scan, StaleRead, explain
from stemmadb.protocol.model.log.commit_record import Identity, LocalIdentity
from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.model.values.limits import Limits


def check(proposal: Proposal, draft: BatchDraft, rights: Rights, limits: Limits) -> None:
    """Raises `Conflict` with every stale read, or `Dependency`; a read the principal may not make claims nothing."""
    stale: list[StaleRead] = []
    scan: Scan | None = None
    head, heads = draft.version, draft.heads
    branch = proposal.branch if rights.may_read("") else None  # reading the empty id means every id
    for read in proposal.reads:
        id_, version = read.id, read.version
        # Nearly every read is of one id on the branch that is written, and its head alone shows that it holds.
        if (
            branch is not None
            and id_ is not None
            and read.branch is None
            and not read.locals
            and version <= head
            and heads[branch, id_].version <= version
        ):
            continue
        scan = scan or Scan(limits.scan_facts_max)
        found = _stale(read, proposal, draft, rights, scan)
        if found is not None:
            stale.append(found)
    if stale:
        raise Conflict(count=len(stale), stale=tuple(stale))


def _stale(read: Read, proposal: Proposal, draft: BatchDraft, rights: Rights, scan: Scan) -> StaleRead | None:
    """Why the read does not hold; one that overlaps is enough, however many others under its prefix do."""
    branch = read.branch or proposal.branch
    assert branch is not None, "a write without a branch names the branch of each read"
    if read.version > draft.version:
        raise FutureVersion(version=read.version, head=draft.version)
    own = _versions_of(read.locals, proposal, draft) if read.locals else ()
    path = read.path if read.prefix is None else None
    for state in _changed(read, branch, draft, rights):
        change = scan.overlapping(state, path, read.version, own)
        if change is not None:
            return explain(read, branch, state, change)
    return None


def _changed(read: Read, branch: BranchName, draft: BatchDraft, rights: Rights) -> Iterable[EntityState]:
    """What a read looks at, as far as it has a fact later than the read and the principal may know."""
    if read.branch is not None:
        draft.readable_branch(branch)
    id_ = read.id
    if id_ is None:
        assert read.prefix is not None, "prepare() lets no read pass that names neither an id nor a prefix"
        return _changed_under(read.prefix, read.version, branch, draft, rights)
    if not rights.may_read(id_):
        return ()
    state = draft.entity(branch, id_)
    return (state,) if state.version > read.version else ()


def _changed_under(
    prefix: str, after: Version, branch: BranchName, draft: BatchDraft, rights: Rights
) -> Iterator[EntityState]:
    """Narrowed before anything is looked at: what changes elsewhere is not felt, not even as too much to scan."""
    for narrower in access_roles.narrowed(prefix, rights.prefixes):
        yield from draft.changed_under(branch, narrower, after)


def _versions_of(names: tuple[PendingName, ...], proposal: Proposal, draft: BatchDraft) -> frozenset[Version]:
    """The versions of the own commits a read was made through; one that was not accepted sinks it (COMMIT-4)."""
    versions = []
    meant, found = proposal.meant or {}, draft.read_through(proposal.identity)
    for name in names:
        known = found.get(name)
        if known is None:
            known = draft.accepted(_named(name, proposal.identity))
            if known is None:
                raise _refused(name)
            found[name] = known
        if name in meant and meant[name] != known.request:
            raise _refused(name)
        versions.append(known.version)
    return frozenset(versions)


def _refused(name: PendingName) -> Dependency:
    return Dependency(local=name if isinstance(name, int) else name[1])


def _named(name: PendingName, identity: Identity) -> LocalIdentity:
    if isinstance(name, tuple):
        return LocalIdentity(identity.principal, name[0], name[1])
    assert isinstance(identity, LocalIdentity), "prepare() gives space-wide writes no reads through locals"
    return LocalIdentity(identity.principal, identity.session, name)
