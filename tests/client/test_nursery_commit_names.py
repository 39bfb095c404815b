"""Names of commits as runs, what depends on them, and the layers of a view: each equals the plain way of doing it."""

from __future__ import annotations

from random import Random

import pytest

from nursery_hands import Hand
from stemmadb.client.nursery.commit_names import CommitNames, NameRun
from stemmadb.client.nursery.dependents import Dependents
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.nursery.plans import CommitWrite
from stemmadb.client.nursery.shown import ShownLayer, ShownLayers
from stemmadb.protocol.model.log import changes
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Local

ONE, OTHER = b"1" * 16, b"2" * 16
SEEDS = range(40)


def name(local: int, session: bytes = ONE) -> CommitName:
    return CommitName(session, Local(local))


def some(random: Random, most: int = 40) -> list[CommitName]:
    """Some names, each once; mostly in rising order, as they were made."""
    found = [name(random.randint(1, most), random.choice((ONE, ONE, OTHER))) for _ in range(random.randint(0, most))]
    found = list(dict.fromkeys(found))
    how = random.random()
    if how < 0.8:
        found.sort(key=(lambda one: (one.local, one.session)) if how < 0.4 else None)
    return found


@pytest.mark.rule("COMMIT-4")
@pytest.mark.parametrize("seed", SEEDS)
def test_runs_are_the_names_in_their_order(seed: int) -> None:
    random = Random(seed)
    plain, others = some(random), some(random)
    names = CommitNames.of(plain)
    assert list(names) == plain
    assert len(names) == len(plain)
    assert [one for one in others if one in names] == [one for one in others if one in set(plain)]
    assert set(names.among(set(others))) == set(plain) & set(others)
    assert set(names.among(dict.fromkeys(others[:2]))) == set(plain) & set(others[:2])
    assert set(CommitNames.union([names, CommitNames.of(others)])) == set(plain) | set(others)
    one_by_one = CommitNames()
    for one in plain:
        one_by_one = one_by_one.followed_by(one)
    assert one_by_one == names
    assert list(names.as_sent(ONE)) == [one.local if one.session == ONE else tuple(one) for one in plain]


@pytest.mark.rule("NURSERY-3")
@pytest.mark.parametrize("seed", SEEDS)
def test_dependents_are_those_that_were_read_through_a_commit(seed: int) -> None:
    random = Random(seed)
    index, plain = Dependents(), dict[CommitName, list[CommitName]]()
    for local in range(100, 120):
        plain[name(local)] = some(random)
        index.add(name(local), CommitNames.of(plain[name(local)]))
        if random.random() < 0.3:
            gone = random.choice(list(plain))
            index.discard(gone, CommitNames.of(plain.pop(gone)))
        for below in [name(local, session) for session in (ONE, OTHER) for local in range(1, 42)]:
            assert set(index.of(below)) == {above for above, depends in plain.items() if below in depends}
    for above, depends in plain.items():
        index.discard(above, CommitNames.of(depends))
    assert not any(list(index.of(name(local))) for local in range(1, 42))
    assert not index._blocks, "what is decided leaves nothing behind"


@pytest.mark.rule("COMMIT-4")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_read_names_the_layers_that_overlap_its_path(seed: int) -> None:
    random = Random(seed)
    many = tuple(f"/many/{number}" for number in range(changes.PATHS_MAX + 1))
    written = (None, ("/a",), ("/a/b",), ("/c", "/d"), ("",), many)
    layers = [ShownLayer(one, random.choice(written), 0) for one in some(random, 12)]
    at_once, one_by_one = ShownLayers.of(layers), ShownLayers.of(())
    for layer in layers:
        one_by_one = one_by_one.under(layer)
    for made in (at_once, one_by_one):
        assert list(made) == layers
        assert list(made.names) == [layer.name for layer in layers]
        for path in ("", "/a", "/a/b", "/c", "/e"):
            expected = [layer.name for layer in layers if _overlaps(layer, path)]
            assert list(made.through(path)) == expected


def _overlaps(layer: ShownLayer, path: str) -> bool:
    paths = layer.paths
    if not path or paths is None or len(paths) > changes.PATHS_MAX:
        return True
    return any(pointer.overlaps(one, path) for one in paths)


@pytest.mark.rule("COMMIT-4", "NURSERY-1")
def test_commits_on_one_entity_are_read_through_one_run_however_many_they_are() -> None:
    """Their number is what they would cost; a run costs what one name does."""
    hand = Hand()
    hand.watch("urn:")
    for number in range(1, 501):
        body = encode(number)
        made = hand.write(CommitWrite("set", EntityId("urn:a"), body, number, None), reads=["urn:a"])
        assert hand.nursery.pending()[-1].depends.runs == ((NameRun(made.session, 1, number - 1),) * (number > 1))
    shown = hand.shown("urn:a")
    assert shown is not None
    assert (shown.value, len(shown.layers), len(shown.layers.names.runs)) == (500, 500, 1)
