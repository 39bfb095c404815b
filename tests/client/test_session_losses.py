"""What a restored server lost: judged by what it lists, and never by what it had no room to list."""

from __future__ import annotations

import random
from itertools import pairwise

import msgspec
import pytest

from session_worlds import Stage, staged_in, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.journal.port import ConfirmedCommit
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.session.losses import Losses, compare
from stemmadb.protocol.model.values.ids import Hash, Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.messages.sync import Kept

SESSIONS = (b"a" * 16, b"b" * 16, b"c" * 16)
KEEP = 4


def commit(version: int, session: bytes = SESSIONS[0], *, history: int = 0) -> ConfirmedCommit:
    hash_ = Hash(bytes([history]) + version.to_bytes(31, "big"))
    return ConfirmedCommit(CommitName(session, Local(version)), Version(version), hash_, b"content")


def listed(log: list[ConfirmedCommit], session: bytes) -> list[Kept]:
    """What a server with this log lists, as RESUME-4 words it."""
    own = [one for one in log if one.name.session == session][-KEEP:]
    found = sorted({one.version: one for one in (*own, *log[-KEEP:])}.items())
    return [
        Kept(
            local=one.name.local,
            session=None if one.name.session == session else one.name.session,
            version=one.version,
            hash=one.hash,
        )
        for _, one in found
    ]


@pytest.mark.rule("RESUME-4")
@pytest.mark.parametrize("seed", range(300))
def test_no_commit_that_the_server_has_is_lost_and_an_own_one_is_never_unknown(seed: int) -> None:
    dice = random.Random(seed)
    before = [commit(version, dice.choice(SESSIONS)) for version in range(1, dice.randint(2, 30))]
    restored = before[: dice.randint(0, len(before))]
    others = SESSIONS[1:]  # the device itself has not been back since
    after = [commit(len(restored) + 1 + n, dice.choice(others), history=1) for n in range(dice.randint(0, 12))]
    server = restored + after
    held = [one for one in before if one.name.session in SESSIONS[:2]][-KEEP:]
    lost, unknown = compare(held, listed(server, SESSIONS[0]), SESSIONS[0], count_max=KEEP)
    there = {(one.name, one.hash) for one in server}
    assert not [one for one in lost if (one.name, one.hash) in there]
    assert not [one for one in unknown if one.name.session == SESSIONS[0]]
    missing = [one for one in held if (one.name, one.hash) not in there]
    assert [one for one in missing if one not in unknown] == lost
    assert all(one.version < another.version for one, another in pairwise(lost))


@pytest.mark.rule("RESUME-4")
def test_a_commit_older_than_what_is_listed_is_unknown() -> None:
    old, listed_ones = commit(3, SESSIONS[1]), [commit(version, SESSIONS[2]) for version in range(10, 10 + KEEP)]
    assert compare([old], listed(listed_ones, SESSIONS[0]), SESSIONS[0], count_max=KEEP) == ([], [old])
    assert compare([old], listed(listed_ones[1:], SESSIONS[0]), SESSIONS[0], count_max=KEEP) == ([old], [])


@pytest.mark.rule("RESUME-4")
def test_a_commit_that_both_have_vouches_for_the_older_ones() -> None:
    """They are not listed, since the list was full; the newer ones are lost."""
    held = [commit(version, SESSIONS[1]) for version in (1, 2, 8, 9)]
    server = [commit(version, SESSIONS[1]) for version in range(1, 9)]
    assert compare(held, listed(server, SESSIONS[0]), SESSIONS[0], count_max=KEEP) == ([held[-1]], [])


@pytest.mark.rule("RESUME-4")
def test_the_bounds_on_what_is_held_are_those_given_and_the_oldest_go_first() -> None:
    losses = Losses([commit(1), commit(2)], bytes_max=5 * len(b"content"))
    assert losses.add([commit(3), commit(4)], count_max=3) == (commit(1).name,)
    assert losses.add([], count_max=2) == (commit(2).name,)
    assert losses.add([commit(version) for version in range(5, 9)], count_max=100) == (commit(3).name,)
    assert losses.compare([], SESSIONS[0], count_max=100).lost == [commit(version) for version in range(4, 9)]
    assert losses.compare([], SESSIONS[0], count_max=100).lost == []


@pytest.mark.rule("RESUME-4")
@staged_in(limits=msgspec.structs.replace(DEFAULTS, lost_keep_max=5))
async def test_a_device_that_wrote_little_reports_only_what_is_lost_beside_one_that_wrote_much(stage: Stage) -> None:
    quiet, busy = await stage.app(disk=SimulatedJournal()), await stage.app(line="busy", disk=SimulatedJournal())
    for number in range(3):
        await (await quiet.set(f"urn:q:{number}", 1, blind=True)).confirmed()
    for number in range(12):
        await (await busy.set(f"urn:b:{number}", 1, blind=True)).confirmed()
    backup = stage.world.backup()
    await (await quiet.set("urn:q:lost", 1, blind=True)).confirmed()
    await quiet.kill()
    await stage.world.restore(backup)
    await quiet.start()
    await quiet.space.connected()
    await until(lambda: quiet.space.status().lost)
    assert quiet.space.status().lost == 1
    assert len(quiet.disk.state().confirmed) == 3
    assert len(busy.disk.state().confirmed) == 5
