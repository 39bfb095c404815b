"""A process that commits to a data directory until it is killed, and prints each commit once it was acknowledged.

    python appender.py DIRECTORY

Each session numbers its commits and keeps one in flight; the others of the batch are those of the other sessions.
After a start it goes on with the first local that the log does not have, as a client does that lost its last verdict.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from engines import ACCESS
from space import ALICE, SPACE, patch_, session_of, set_
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.proposal import Proposal, prepare
from stemmadb.protocol.model.commit.request import Content, Operation, digest_request
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, Local
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.open_store import open_store

SESSIONS = 6


def proposal(author: Did, session: str, local: int, *operations: Operation) -> Proposal:
    content = Content(operations=operations)
    identity = LocalIdentity(author, session_of(session), Local(local))
    return prepare(identity, digest_request(bytes(16), encode(content)), content)


def commit_of(number: int, local: int) -> Proposal:
    """The content is a function of the identity, so that whoever sends it again sends the same.

    Every commit adds its local to the session's list and counts a number that all sessions share.
    """
    own = f"urn:list:{number}"
    add = {"op": "add", "path": "/-", "value": local}
    first = set_(own, [local], blind=True) if local == 1 else patch_(own, add, blind=True)
    count = patch_("urn:count", {"op": "increment", "path": "", "by": 1}, blind=True)
    padding = set_(f"urn:page:{number}:{local % 7}", "x" * (100 * (local % 50)), blind=True)
    return proposal(ALICE, f"s{number}", local, first, count, padding)


async def start(space: OpenSpace) -> None:
    access = proposal(SPACE, "first", 1, set_(SPACE, ACCESS, blind=True))
    count = proposal(SPACE, "first", 2, set_("urn:count", 0, blind=True))
    for one in (access, count):
        await space.decide(one)


async def keep_committing(space: OpenSpace, number: int) -> None:
    session = (ALICE, session_of(f"s{number}"))
    local = (await space.read(lambda log: log.highest_locals([session])))[session]
    while True:
        local = Local(local + 1)
        outcome = await space.decide(commit_of(number, local))
        assert isinstance(outcome, Accepted), outcome
        print(f"{number} {local} {outcome.commit.version}", flush=True)


async def main(where: Path) -> None:
    async with open_store(where) as store:
        space = await store.space(SPACE, create=True)
        await start(space)
        print("ready", flush=True)
        await asyncio.gather(*(keep_committing(space, number) for number in range(SESSIONS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
