"""Deeds beside ordinary commits: branches, merges, undo, reverts, erasures, compactions, access, delegations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Final, TypeAlias

from simulation.history import History
from simulation.lives import Life
from simulation.scene import DOCS, Scene
from stemmadb.client.reading.access import Grant
from stemmadb.client.space import Space
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity, Strategy
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import MAIN, Version

BRANCHES: Final = ("draft", "side")
STRATEGIES: Final[tuple[Strategy, ...]] = ("lww", "source", "target", "fields", "fail")
ROLES: Final[tuple[Grant | None, ...]] = ("own", "own", "write", "read", None)

Deed: TypeAlias = Callable[[Life, Random, Scene], Awaitable[object]]


async def branch(life: Life, random: Random, name: str | None = None) -> Space:
    """The space on a branch, which is made if it is not there."""
    name = name or random.choice(BRANCHES)
    if name not in life.branches:
        life.branches[name] = await life.space.branch(name, create=True)
    return life.branches[name]


async def merge(life: Life, random: Random, _scene: Scene) -> None:
    """One branch is merged into main, the other is given what main has: a criss-cross would be a conflict, and
    what wins there is not for sums to say (MERGE-2)."""
    strategy = random.choice(STRATEGIES)
    if random.random() < 0.7:
        await (await branch(life, random, "side")).merge_into("main", strategy=strategy)
    else:
        await (await branch(life, random, "draft")).merge_from("main", strategy=strategy)


async def undo(life: Life, random: Random, _scene: Scene) -> None:
    space = await branch(life, random)
    await (space.undo() if random.random() < 0.6 else space.redo())


async def revert(life: Life, random: Random, scene: Scene) -> None:
    """Of any commit that only changed documents, of whomever."""
    with _naming_versions(scene):  # from here: a branch that is opened first may take longer than a restore
        found = [commit for commit, facts in _plain(scene.states.now) if all(fact.id in DOCS for fact in facts)]
        if found:
            commit = random.choice(found[-10:])
            space = life.space if commit.branch == MAIN else await branch(life, random, commit.branch)
            await space.revert(commit.version)


def _plain(history: History) -> list[tuple[Commit, tuple[Fact, ...]]]:
    both = zip(history.commits, history.facts, strict=True)
    return [(commit, facts) for commit, facts in both if isinstance(commit.identity, LocalIdentity) and facts]


async def erase(life: Life, random: Random, scene: Scene) -> None:
    """Of a document, at some of its versions; sometimes the caller says what it is from now on."""
    id_ = random.choice(DOCS)
    facts = [fact for of_commit in scene.states.now.facts for fact in of_commit if fact.id == id_ and fact.body]
    if facts:
        versions = {fact.version for fact in random.sample(facts, min(len(facts), random.randint(1, 3)))}
        with _naming_versions(scene):
            await life.space.erase(id_, sorted(versions))


@contextmanager
def _naming_versions(scene: Scene) -> Iterator[None]:
    """A version of a history that was lost meanwhile may be any other write, and the server says so."""
    epoch = scene.states.epoch
    try:
        yield
    except Malformed as error:
        if epoch == scene.states.epoch or error.facts.get("path") not in ("versions", "/versions"):
            raise


async def compact(life: Life, random: Random, scene: Scene) -> None:
    await life.space.compact(random.randint(1, max(1, scene.states.now.tip - random.randint(0, 10))))


async def access(life: Life, random: Random, scene: Scene) -> None:
    """Gives somebody another role, or none; one owner stays."""
    did, role = random.choice(scene.others), random.choice(ROLES)
    await (life.space.acl.remove(did) if role is None else life.space.acl.set(did, role))


async def revoke(life: Life, _random: Random, scene: Scene) -> None:
    """What was delegated to the guest is taken back."""
    if scene.token and scene.states.now.tip > Version(5):
        await life.space.revoke(scene.token)


DEEDS: Final[Mapping[str, Deed]] = {
    "merge": merge,
    "undo": undo,
    "revert": revert,
    "erase": erase,
    "compact": compact,
    "access": access,
    "delegate": revoke,
}
"""By the kind of work."""
