"""Records that no admission made, with hashes that hold: what only a second look can find."""

from __future__ import annotations

from typing import Any

from appends import append_to
from space import ALICE, SPACE
from stemmadb.protocol.model.log import commit_record as commits
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import Arguments, Commit, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Local, TimeMs, Version
from stemmadb.server.storage.port import AcceptedWrite, SpaceLog


def forged(
    log: SpaceLog,
    *,
    details: Arguments | None = None,
    branch: str | None = MAIN,
    is_local: bool | None = None,
    bodies: tuple[tuple[str, Any, bytes], ...] = (),
) -> AcceptedWrite:
    """A record that no admission made, with hashes that hold: (kind, id, body) of each fact."""
    with log.reader() as reader:
        tip = reader.tip()
        version = Version(tip.version + 1)
        made: list[Fact] = []
        for index, (kind, id_, body) in enumerate(bodies):
            before = [fact for fact in made if fact.id == id_] or reader.facts_of(EntityId(id_))
            parent = before[-1].hash if before else facts.empty(id_)
            salt = bytes(16)
            digest = facts.digest_of(salt, body)
            hash_ = facts.hash_fact(kind, id_, parent, digest)  # type: ignore[arg-type]
            made.append(
                Fact(version, index, MAIN, EntityId(id_), kind, parent, digest, hash_, salt, body)  # type: ignore[arg-type]
            )
    is_ordinary = details is None if is_local is None else is_local
    number = version.to_bytes(16, "big")
    record = Commit(
        version=version,
        previous=tip.hash,
        identity=LocalIdentity(ALICE, b"s" * 16, Local(version)) if is_ordinary else OperationIdentity(ALICE, number),
        time=TimeMs(9_000),
        request=Hash(b"r" * 32),
        branch=None if branch is None else BranchName(branch),
        facts=tuple(fact.hash for fact in made),
        fact_branches=() if branch is not None else tuple(MAIN for _ in made),
        arguments=encode(details),
        note_digest=NO_BODY,
    )
    return AcceptedWrite(commits.sealed(SPACE, record), tuple(made))


def append(log: SpaceLog, entry: AcceptedWrite) -> None:
    append_to(log, Version(entry.commit.version - 1), [entry])
