"""Deeds that read: the head, the past, and what came since a version; each is held against what is durable."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from check_reads import ServerRead
from check_states import differing
from simulation.history import History
from simulation.lives import Life
from simulation.scene import ACCOUNTS, DOCS, TALLIES, Scene
from stemmadb.protocol.errors import Compacted, Malformed
from stemmadb.protocol.model.log.commit_record import Erase
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Version
from stemmadb.protocol.model.values.json_values import equal
from stemmadb.protocol.wire.messages.base import Done
from stemmadb.protocol.wire.messages.reading import UnwatchRequest, WatchAnswer, WatchRequest
from stemmadb.protocol.wire.messages.sync import CommitItem
from stemmadb.protocol.wire.records import fact_of
from violations import expect_none

WATCH: Final = 200
"""The number of a watch from the past: beyond those that the client gives."""


async def read(life: Life, random: Random, scene: Scene) -> None:
    """What the server answers is whole, and no older than what was acknowledged before."""
    if random.random() < 0.3:
        await life.space.get(random.choice((*DOCS, *TALLIES)))
        return
    epoch, began = scene.states.epoch, scene.now()
    result = await life.space.query("urn:*")
    found: dict[str, Any] = result.entities
    assert sum(found[one]["n"] for one in ACCOUNTS) == 0, f"a torn read: {found}"
    scene.note_read(epoch, ServerRead(began, result.version, life.app.did))
    if epoch == scene.states.epoch and not life.space._session.nursery.pending():
        _compare(scene, found, MAIN, result.version)


async def past(life: Life, random: Random, scene: Scene) -> None:
    """A past state is the same for ever, or it is erased or compacted (HISTORY-2)."""
    space, epoch = random.choice(list(life.branches.values())), scene.states.epoch
    version = Version(random.randint(1, scene.states.now.tip))
    try:
        found = dict((await space.at(version=version).query("urn:*")).entities)
    except Compacted:
        assert epoch != scene.states.epoch or scene.states.now.floor > version, f"{version} is above the floor"
        raise
    if epoch == scene.states.epoch:
        _compare(scene, found, space.branch_name, version)


def _compare(scene: Scene, found: dict[str, Any], branch: str, version: Version) -> None:
    """What was erased since may be missing, also from the later pages of one answer (QUERY-5)."""
    gone = erased(scene.states.now) - found.keys()
    state = scene.states.at(branch, version) or {}
    expected = {str(id_): value for id_, value in state.items() if id_ not in gone}
    expect_none(differing(found, expected, who=f"a read of {branch} at {version}", same=equal))
    scene.checks += 1


def erased(history: History) -> set[str]:
    """The entities of which something was erased."""
    details = (commit.details for commit in history.commits)
    return {str(one.id) for one in details if isinstance(one, Erase)}


async def past_watch(life: Life, random: Random, scene: Scene) -> None:
    """A watch that starts in the past is told every fact since, each once and in order (WATCH-3)."""
    requester, epoch = life.space._requester, scene.states.epoch
    since = Version(random.randint(max(1, scene.states.now.floor), scene.states.now.tip))
    query, after = Query((Root("urn:*"),)), None
    items: list[CommitItem] = []
    while True:
        fields: dict[str, Any] = {"watch": WATCH, "query": query, "since": since, "after": after}
        try:
            answer = await requester.ask(WatchRequest, WatchAnswer, **fields)
        except Malformed:
            if after is None or epoch == scene.states.epoch:
                raise  # only the pages of another history do not go on
            return
        items.extend(answer.commits)
        after = answer.next
        if after is None:
            break
    await requester.ask(UnwatchRequest, Done, watch=WATCH)
    if epoch == scene.states.epoch:
        told = [fact_of(fact, item.version, item.branch) for item in items for fact in item.facts]
        log = _facts(scene.states.now, since, answer.version)
        assert [_named(fact) for fact in told] == [_named(fact) for fact in log], f"since {since}: {told} <> {log}"
        scene.checks += 1


def _facts(history: History, since: Version, to: Version) -> list[Fact]:
    facts = [fact for of_commit in history.facts[since:to] for fact in of_commit]
    return [fact for fact in facts if fact.branch == MAIN and fact.id != EntityId(history.space)]


def _named(fact: Fact) -> tuple[int, int, str, bytes]:
    return fact.version, fact.index, str(fact.id), fact.hash
