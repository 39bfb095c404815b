"""A real store on SQLite for the benchmarks of the engine, and the load they put on it."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.load.processes import DIRECTORY
from benchmarks.ours.sessions import Key
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.admission import Accepted, Outcome
from stemmadb.protocol.model.commit.proposal import Proposal, prepare
from stemmadb.protocol.model.commit.request import Content, Operation, Read, digest_request
from stemmadb.protocol.model.log.commit_record import LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import digest_of
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Local
from stemmadb.server.engine.base.settings import DEFAULTS, Settings
from stemmadb.server.engine.base.space_port import Asked
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.open_store import open_store

SPACE_KEY, AUTHOR_KEY = Key(bytes(31) + b"1"), Key(bytes(31) + b"2")
"""Known to all, so that a server can be asked for what was written here."""
SPACE, AUTHOR = SPACE_KEY.did, AUTHOR_KEY.did


class Load:
    """Makes commits as a client does, and counts the bytes it would send."""

    def __init__(self, space: OpenSpace) -> None:
        self.space = space
        self.bytes_sent = 0
        self._locals: dict[bytes, int] = {}
        self._operations = itertools.count(1)

    def proposal(
        self, operations: Iterable[Operation], reads: Iterable[Read] = (), *, session: int = 0, branch: str = MAIN
    ) -> Proposal:
        key = session.to_bytes(16, "big")
        local = self._locals[key] = self._locals.get(key, 0) + 1
        content = Content(operations=tuple(operations), reads=tuple(reads), branch=BranchName(branch))
        encoded = encode(content)
        self.bytes_sent += len(encoded) + MESSAGE_BYTES
        return prepare(LocalIdentity(AUTHOR, key, Local(local)), digest_request(bytes(16), encoded), content)

    async def commit(self, operations: Iterable[Operation], **how: Any) -> int:
        outcome = await self.space.decide(self.proposal(operations, **how))
        assert isinstance(outcome, Accepted), outcome
        return outcome.commit.version

    async def all(self, proposals: Sequence[Proposal]) -> None:
        """All of them at once: they are decided and written together, in order."""
        outcomes: list[Outcome | StemmaError] = []
        done = asyncio.get_running_loop().create_future()

        def told(outcome: Outcome | StemmaError) -> None:
            outcomes.append(outcome)
            if len(outcomes) == len(proposals):
                done.set_result(None)

        for proposal in proposals:
            self.space.propose(proposal, told)  # as the service does
        await done
        for outcome in outcomes:
            assert isinstance(outcome, Accepted), outcome

    def asked(self) -> Asked:
        number = next(self._operations).to_bytes(8, "big") + secrets.token_bytes(8)
        return Asked(OperationIdentity(AUTHOR, number), digest_of(b"", number))


MESSAGE_BYTES = len(encode({"type": "commit", "local": 100_000, "nonce": bytes(16), "content": b""}))
"""What a commit message has beside its content."""


@asynccontextmanager
async def opened(directory: Path, settings: Settings = DEFAULTS) -> AsyncIterator[Load]:
    """The space in a directory, made if it is not there, with its access list."""
    async with open_store(directory, settings=settings) as store:
        space = await store.space(SPACE, create=True)
        if space.version == 0:
            body = encode({SPACE: "own", AUTHOR: "own"})
            content = Content(operations=(Operation(op="set", id=EntityId(SPACE), body=body, blind=True),))
            identity = LocalIdentity(SPACE, bytes(16), Local(1))
            await space.decide(prepare(identity, digest_request(bytes(16), encode(content)), content))
        yield Load(space)


@asynccontextmanager
async def fresh(settings: Settings = DEFAULTS) -> AsyncIterator[tuple[Load, Path]]:
    with tempfile.TemporaryDirectory(prefix="stemmadb-bench-", dir=DIRECTORY) as name:
        async with opened(Path(name), settings) as load:
            yield load, Path(name)


def files_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
