"""What has to hold of the log when a run is over, whatever happened in it."""

from __future__ import annotations

from random import Random
from typing import Final

import check_log
import check_reads
from check_states import differing
from simulation.history import History
from simulation.reading import erased
from simulation.scene import DOCS, Scene
from simulation.wire import Tap
from stemmadb.protocol.errors import Compacted
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.model.values.json_values import equal
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import listing
from stemmadb.server.maintenance.verify import verify
from violations import expect_none

MOMENTS: Final = 6
"""Of the past that are read again at the end."""


def check_logs(scene: Scene, tap: Tap) -> int:
    """What was acknowledged is there, once; versions and times never go back; no read was older than it may be."""
    for epoch, history in enumerate(scene.states.histories):
        log = [check_log.Entry(one.version, one.identity, one.time, one.hash) for one in history.commits]
        told = [(moment, one) for when, moment, one in tap.acknowledged if when == epoch]
        reads = [read for when, read in scene.reads if when == epoch]
        expect_none(
            check_log.lost((one for _, one in told), log),
            check_log.disputed(one for _, one in told),
            check_log.doubled(log),
            check_log.gone_back(log),
            check_reads.stale((moment for moment, _ in told), reads),
        )
        _check_order(history)
    return len(tap.acknowledged) + len(scene.reads)


def _check_order(history: History) -> None:
    """The commits of a session are in the log in the order in which they were made (COMMIT-5)."""
    last: dict[tuple[str, bytes], int] = {}
    for commit in history.commits:
        one = commit.identity
        if isinstance(one, LocalIdentity):
            before = last.get((one.principal, one.session), 0)
            assert one.local > before, f"{one} at {commit.version} comes after {before}"
            last[one.principal, one.session] = one.local


def check_rights(scene: Scene, guest: str) -> int:
    """Everybody who wrote could: by the access list just before, or by what was delegated and not revoked (ACL-1)."""
    history = scene.states.now
    names = {delegation.name_of(token) for token in scene.tokens}
    for commit in history.commits[1:]:
        role = history.role(commit.author, Version(commit.version - 1))
        if commit.author == guest:
            _check_guest(history, commit.version, min(history.revoked.get(one, history.tip + 1) for one in names))
        elif isinstance(commit.identity, LocalIdentity):
            assert role in ("write", "own"), f"{commit.author} had {role} before {commit.version}"
        elif commit.kind in ("erase", "compact", "revoke"):
            assert role == "own", f"{commit.author} had {role} before {commit.version}, a {commit.kind}"
    return history.tip


def _check_guest(history: History, version: Version, revoked: int) -> None:
    assert version < revoked, f"{version} is by a guest whose rights ended at {revoked}"
    strange = [fact.id for fact in history.facts[version - 1] if fact.id not in DOCS]
    assert not strange, f"{version} by a guest writes {strange}"


def check_past(scene: Scene, random: Random) -> int:
    """Past states are what they were when they were made, or are gone for a reason (HISTORY-2)."""
    history, log = scene.states.now, scene.world.truth._storage.open(scene.states.space)
    gone = erased(history)
    for _ in range(MOMENTS):
        branch, version = random.choice(history.branches), Version(random.randint(1, history.tip))
        moment = ReadMoment(branch=BranchName(branch), version=version)
        with log.reader() as reader:
            try:
                found = {
                    str(one.id): body.read_stored(one.body) for one in listing.page(reader, "urn:", moment).entities
                }
            except Compacted:
                assert version < history.floor, f"{version} is compacted, and the floor is {history.floor}"
                continue
        state = scene.states.at(branch, version) or {}
        expected = {str(id_): value for id_, value in state.items() if id_ not in gone or id_ in found}
        expect_none(differing(found, expected, who=f"{branch} at {version}", same=equal))
    return MOMENTS


def check_chain(scene: Scene) -> int:
    """The hash chain, the snapshots and every patch of the space hold (FACT-3)."""
    verify(scene.world.truth._storage.open(scene.states.space))
    return scene.states.now.tip
