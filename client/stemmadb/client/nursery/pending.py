"""Pending commits: own work that is not decided yet, with the exact bytes that are sent (COMMIT-5)."""

from __future__ import annotations

from stemmadb.client.nursery.commit_names import NO_COMMITS, CommitNames
from stemmadb.client.nursery.entities import CommitName, Key
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite
from stemmadb.protocol.model.commit.request import Content, Operation, PendingName, Read, digest_request
from stemmadb.protocol.model.patch import footprint
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Local
from stemmadb.protocol.wire.codec.msgpack_codec import encode_content, read_content


class Pending:
    """One undecided commit. Its bytes never change: a retry sends the same ones (RESUME-2)."""

    __slots__ = (
        "_request",
        "branch",
        "by_id",
        "content",
        "depends",
        "depends_elsewhere",
        "is_integrated",
        "is_shown",
        "keys",
        "name",
        "nonce",
        "writes",
    )

    def __init__(
        self,
        name: CommitName,
        *,
        nonce: bytes,
        content: bytes,
        branch: BranchName,
        writes: tuple[CommitWrite, ...],
        depends: CommitNames,
    ) -> None:
        self.name = name
        self.nonce = nonce
        self.content = content
        self.branch = branch
        self.writes = writes
        self.depends = depends
        """The own commits it was read through: if one of them is refused, so is this one (COMMIT-4)."""
        elsewhere = tuple([run for run in depends.runs if run.session != name.session])
        self.depends_elsewhere = CommitNames(elsewhere) if elsewhere else NO_COMMITS
        """Those of them that were made in another session."""
        self.is_shown = True
        """Whether the view has it: False while one of its operations, or one it builds on, does not apply."""
        self.is_integrated = False
        """True once its facts are, or may be, among the confirmed values before its verdict: it is hidden then."""
        self.by_id: dict[EntityId, list[int]] = {}
        """Which operations write each entity, by index."""
        for index, write in enumerate(writes):
            self.by_id.setdefault(write.id, []).append(index)
        self.keys: tuple[Key, ...] = tuple([(branch, id_) for id_ in self.by_id])
        """The entities that it writes."""
        self._request: Hash | None = None

    @property
    def request(self) -> Hash:
        """The digest by which a verdict says what was accepted (COMMIT-5)."""
        if self._request is None:
            self._request = digest_request(self.nonce, self.content)
        return self._request

    def __repr__(self) -> str:
        return f"Pending({self.name.local}, {', '.join(f'{one.op} {one.id}' for one in self.writes)})"


def named(plan: CommitPlan, name: CommitName, *, nonce: bytes) -> Pending:
    """The commit that a plan becomes once it has a name: encoded here, once."""
    several = [read.through for read in plan.reads if read.through.runs]
    depends = several[0] if len(several) == 1 else CommitNames.union(several)
    content = Content(
        operations=tuple([Operation(op=one.op, id=one.id, body=one.body, blind=one.blind) for one in plan.writes]),
        reads=tuple(
            [
                Read(
                    version=read.version,
                    id=read.id,
                    prefix=read.prefix,
                    path=read.path,
                    branch=read.branch,
                    locals=read.through.as_sent(name.session) if read.through.runs else (),
                )
                for read in plan.reads
            ]
        ),
        branch=plan.branch,
        note=plan.note,
    )
    return Pending(
        name,
        nonce=nonce,
        content=encode_content(content),
        branch=plan.branch,
        writes=plan.writes,
        depends=depends,
    )


def restored(name: CommitName, *, nonce: bytes, content: bytes) -> Pending:
    """The commit as the journal has it: read from the bytes that will be sent."""
    read = read_content(content)
    return Pending(
        name,
        nonce=nonce,
        content=content,
        branch=read.branch,
        writes=writes_of(read),
        depends=CommitNames.union(
            [CommitNames.of(_meant(below, name.session) for below in one.locals) for one in read.reads]
        ),
    )


def _meant(below: PendingName, session: bytes) -> CommitName:
    return CommitName(session, Local(below)) if isinstance(below, int) else CommitName(below[0], Local(below[1]))


def writes_of(content: Content) -> tuple[CommitWrite, ...]:
    """The operations of a content, each with the value that it means."""
    return tuple(_write(operation) for operation in content.operations)


def _write(operation: Operation) -> CommitWrite:
    value = None if operation.body is None else body.read_stored(operation.body)
    paths = None
    if operation.op == "patch":
        assert isinstance(value, list), "the list of operations was read before"
        paths = footprint(value).writes  # type: ignore[arg-type]  # a list of objects
    return CommitWrite(operation.op, operation.id, operation.body, value, paths, operation.blind)
