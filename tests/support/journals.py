"""Steps of a journal, known from their number alone; and, run as a program, one that writes them until it is killed.

    python journals.py <directory> <first step> [<bytes that a file may have>]

It prints the number of a step once it is durable, or `failed <number>`.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sqlite3
import sys
from pathlib import Path

import msgspec

from stemmadb.client.cache.records import CacheEntity, CacheHead, CacheStep, CacheWatch
from stemmadb.client.journal.contents import JournalContents
from stemmadb.client.journal.disk import DiskJournal
from stemmadb.client.journal.port import (
    CommitBase,
    ConfirmedCommit,
    JournaledCommit,
    JournalState,
    JournalStep,
    RejectedCommit,
)
from stemmadb.client.nursery.entities import CommitName
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.wire.messages.commit import Current

SPACE = Did("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")
PRINCIPAL = Did("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp")
SESSION = b"s" * 16
WINDOW = 32
"""How many steps are on their way at once."""

HAS_CACHE = bool(os.environ.get("STEMMADB_TEST_CACHE"))
"""Whether the program writes a cache as well."""
STEPS_MAX = 5_000
"""Where the program ends by itself, if nobody kills it and nothing fails."""


def name(local: int, session: bytes = SESSION) -> CommitName:
    return CommitName(session, Local(local))


def base(number: int = 1, *, as_of: int = 9, body: bytes | None = b"\xa1x") -> CommitBase:
    id_ = EntityId(f"urn:base:{number}")
    return CommitBase(
        BranchName("main"), id_, Version(number), Hash(bytes([number % 256]) * 32), Version(as_of), body
    )


def journaled(local: int, *bases: CommitBase, session: bytes = SESSION, size: int = 100) -> JournaledCommit:
    content = random.Random(local).randbytes(size)
    return JournaledCommit(name(local, session), local.to_bytes(16, "big"), content, bases)


def confirmed(local: int, session: bytes = SESSION) -> ConfirmedCommit:
    return ConfirmedCommit(name(local, session), Version(local), Hash(bytes([local % 256]) * 32), b"content")


def rejected(local: int, session: bytes = SESSION, message: str = "stale") -> RejectedCommit:
    id_, main = EntityId("urn:x"), BranchName("main")
    return RejectedCommit(
        name=name(local, session),
        content=b"content",
        code="conflict",
        message=message,
        time=TimeMs(1),
        details={"count": 1, "of": ["a", None, 1.5, b"raw"]},
        stale=(
            StaleRead(branch=main, id=id_, read=Version(1), head=Version(2), winner=Version(2), author=PRINCIPAL),
        ),
        current=(Current(branch=main, id=id_, version=Version(2), hash=Hash(b"h" * 32), body=b"\xc0"),),
        decided=Version(2),
        because=name(local + 1),
    )


def numbered(number: int) -> JournalStep:
    """Two commits are journaled; of those five steps before, one is confirmed and one is rejected for a while."""
    local = 2 * number - 1
    old = local - 10
    return JournalStep(
        session=SESSION if number == 1 else None,
        add=(journaled(local, base(number // 3, as_of=number)), journaled(local + 1)),
        confirm=(confirmed(old),) if old > 0 else (),
        reject=(rejected(old + 1),) if old > 0 else (),
        drop=(name(old - 9),) if old > 10 else (),
        standing=(Version(number), Hash(bytes([number % 256]) * 32)),
    )


def state_after(count: int) -> JournalState:
    contents = JournalContents()
    for number in range(1, count + 1):
        contents.take(numbered(number))
    return contents.state()


def steps_in(state: JournalState) -> int:
    """How many numbered steps a journal has."""
    return state.last_local // 2


def random_steps(seed: int, count: int) -> list[JournalStep]:
    """Steps with everything that can be in one, in an order that can happen."""
    dice = random.Random(seed)
    session, last, pending, refused, lost = bytes(16), 0, list[CommitName](), list[CommitName](), list[CommitName]()
    steps = []
    for number in range(count):
        moved = dice.random() < 0.1 or number == 0
        if moved and dice.random() < 0.8:
            session, last = dice.randbytes(16), 0
        keep = []
        for _ in range(dice.choice([0, 1, 1, 3])):
            last += dice.choice([1, 1, 5])
            bases = [base(dice.randint(1, 4), as_of=dice.randint(4, 9)) for _ in range(dice.choice([0, 0, 1, 2]))]
            keep.append(journaled(last, *bases, session=session))
        decided = dice.sample(pending, min(len(pending), dice.choice([0, 0, 1, 2])))
        pending = [one for one in pending if one not in decided] + [one.name for one in keep]
        good = [one for one in decided if dice.random() < 0.7]
        bad = [one for one in decided if one not in good]
        dropped = refused[:1] if dice.random() < 0.3 else []
        refused = refused[len(dropped) :] + bad
        steps.append(
            JournalStep(
                add=tuple(keep),
                confirm=tuple(confirmed(one.local, one.session) for one in good),
                reject=tuple(rejected(one.local, one.session) for one in bad),
                drop=tuple(dropped),
                forget=tuple(dice.sample(lost, min(len(lost), 2))) if dice.random() < 0.1 else (),
                standing=(Version(number), Hash(dice.randbytes(32))) if dice.random() < 0.3 else None,
                session=session if moved else None,
            )
        )
        lost += good
    return steps


class Failing(sqlite3.Connection):
    """Its sync fails after the bytes were written: the worst that a disk may do."""

    is_broken = False

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        done = super().execute(sql, *values)  # type: ignore[arg-type]
        if sql == "COMMIT" and Failing.is_broken:
            raise sqlite3.OperationalError("disk I/O error")
        return done


def opened(
    directory: Path, *, factory: type[sqlite3.Connection] = sqlite3.Connection, cache: bool = False
) -> DiskJournal:
    return DiskJournal(directory, space=SPACE, principal=PRINCIPAL, factory=factory, cache=cache)


async def written(journal: DiskJournal, *steps: JournalStep) -> list[Exception | None]:
    """Writes them all at once; what became of each."""
    told: list[Exception | None] = []
    last = asyncio.get_running_loop().create_future()
    for step in steps[:-1]:
        journal.write(step, told.append)
    journal.write(steps[-1], last.set_result)
    told.append(await last)
    return told


async def loaded(directory: Path, *, cache: bool = False) -> JournalState:
    """What the next one who opens it finds."""
    journal = opened(directory, cache=cache)
    try:
        return journal.load()
    finally:
        await journal.close()


def with_cache(number: int) -> JournalStep:
    """The numbered step, and a step of the cache: one watch, of which an entity comes, changes or goes each time."""
    head = CacheHead(Version(number), Hash(bytes([number % 256]) * 32), TimeMs(number), None, b"d")
    id_, old = EntityId(f"urn:c:{number}"), number - 20
    gone = () if old < 1 else (EntityId(f"urn:c:{old}"),)
    cache = CacheStep(
        head=head,
        watches=(CacheWatch(1, '{"roots":[{"id":"urn:c:*"}]}', TimeMs(number)),),
        enter=((1, id_),),
        leave=tuple((1, one) for one in gone),
        put=(cache_entity(number),),
        remove=tuple((BranchName("main"), one) for one in gone),
    )
    return msgspec.structs.replace(numbered(number), cache=cache)


def cache_entity(number: int) -> CacheEntity:
    value = msgspec.msgpack.encode({"text": secret(number)})
    return CacheEntity(
        BranchName("main"), EntityId(f"urn:c:{number}"), Version(number), Hash(bytes([number % 256]) * 32), value
    )


def secret(number: int) -> str:
    """What a byte scan looks for."""
    return f"secret-{number:06}-value"


def cached_after(count: int) -> JournalState:
    contents = JournalContents()
    for number in range(1, count + 1):
        contents.take(with_cache(number))
    return contents.state()


async def _write_on(directory: Path, first: int) -> None:
    journal = opened(directory, cache=HAS_CACHE)
    journal.load()
    print("ready", flush=True)
    room = asyncio.Semaphore(WINDOW)
    failed = asyncio.Event()

    def tell(number: int, error: Exception | None) -> None:
        print(number if error is None else f"failed {number}", flush=True)
        room.release()
        if error is not None:
            failed.set()

    for number in range(first, first + STEPS_MAX):
        await room.acquire()
        if failed.is_set():
            break
        step = with_cache(number) if HAS_CACHE else numbered(number)
        journal.write(step, lambda error, number=number: tell(number, error))  # type: ignore[misc]
    await journal.close()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
    asyncio.run(_write_on(Path(sys.argv[1]), int(sys.argv[2])))
