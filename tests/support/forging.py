"""Records that no admission made, with hashes that hold: what only a second look can find."""

from __future__ import annotations

from typing import Any

from space import ALICE, SPACE
from stemmadb.protocol.model import commit as commits
from stemmadb.protocol.model import facts
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.commit import Arguments, Commit, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.facts import NO_BODY, Fact
from stemmadb.protocol.model.ids import MAIN, BranchName, EntityId, Hash, Local, TimeMs, Version
from stemmadb.server.storage.port import Entry, SpaceLog


def forged(
    log: SpaceLog,
    *,
    details: Arguments | None = None,
    branch: str | None = MAIN,
    is_local: bool | None = None,
    bodies: tuple[tuple[str, Any, bytes], ...] = (),
) -> Entry:
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
    is_plain = details is None if is_local is None else is_local
    number = version.to_bytes(16, "big")
    record = Commit(
        version=version,
        previous=tip.hash,
        identity=LocalIdentity(ALICE, b"s" * 16, Local(version)) if is_plain else OperationIdentity(ALICE, number),
        time=TimeMs(9_000),
        request=Hash(b"r" * 32),
        branch=None if branch is None else BranchName(branch),
        facts=tuple(fact.hash for fact in made),
        fact_branches=() if branch is not None else tuple(MAIN for _ in made),
        arguments=encode(details),
        note_digest=NO_BODY,
    )
    return Entry(commits.sealed(SPACE, record), tuple(made))


def append(log: SpaceLog, entry: Entry) -> None:
    log.append(Version(entry.commit.version - 1), [entry])
