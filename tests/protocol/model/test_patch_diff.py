"""Differences: exact, small, and fine enough that two writers of different fields do not collide."""

from __future__ import annotations

import copy
import random
from typing import Any

import jsonpatch
import msgspec
import pytest

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.patch.align import EDITS_MAX, Hunk, align
from stemmadb.protocol.model.values import json_values
from stemmadb.protocol.model.values.limits import DEFAULTS

Doc = Any
TEXT = "the quick brown fox jumps over the lazy dog and looks for something to eat"


def bytes_of(steps: list[Doc]) -> int:
    return len(msgspec.msgpack.encode(steps))


PADDING = {"text": TEXT, "more": TEXT}  # so that the parts are smaller than the whole

WORKED: list[tuple[Doc, Doc, list[Doc]]] = [
    ({"a": 1}, {"a": 1}, []),
    (1, 1.0, []),
    (1, True, [{"op": "replace", "path": "", "value": True}]),
    ({"a": 1}, [1], [{"op": "replace", "path": "", "value": [1]}]),
    (PADDING | {"a": 1}, PADDING | {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    (PADDING | {"a": [0]}, PADDING | {"a": [False]}, [{"op": "replace", "path": "/a/0", "value": False}]),
    (PADDING | {"a/b": {"~": 1}}, PADDING | {"a/b": {}}, [{"op": "remove", "path": "/a~1b/~0"}]),
    (PADDING, PADDING | {"": []}, [{"op": "add", "path": "/", "value": []}]),
    (PADDING | {"a": {}}, PADDING | {"a": []}, [{"op": "replace", "path": "/a", "value": []}]),
    (
        [TEXT, TEXT, 1, 2, 3, TEXT],
        [TEXT, TEXT, 3, TEXT],
        [{"op": "splice", "path": "", "index": 2, "remove": 2, "add": []}],
    ),
    (
        PADDING | {"a": [1, 1, 1]},
        PADDING | {"a": [1, 1, 1, 1]},
        [{"op": "add", "path": "/a/3", "value": 1}],
    ),
    (PADDING | {"a": [1, 2, 3]}, PADDING | {"a": [1, 3]}, [{"op": "remove", "path": "/a/1"}]),
    (
        PADDING | {"a": [TEXT, 0, 1, 2]},
        PADDING | {"a": [0, 1, TEXT, 2]},
        [{"op": "move", "from": "/a/0", "path": "/a/2"}],
    ),
    (
        PADDING | {"a": [0, 1, 2, TEXT, 3]},
        PADDING | {"a": [0, TEXT, 1, 2, 3]},
        [{"op": "move", "from": "/a/3", "path": "/a/1"}],
    ),
    (
        PADDING | {"a": [TEXT * 2, "b", TEXT, "c", TEXT * 3, "d"]},
        PADDING | {"a": [TEXT * 2, "B", TEXT, "c", TEXT * 3]},
        [{"op": "replace", "path": "/a/1", "value": "B"}, {"op": "remove", "path": "/a/5"}],
    ),
    (
        PADDING | {"a": [1, 2, 3, 4]},
        PADDING | {"a": [1, 7, 8, 9, 4]},
        [{"op": "splice", "path": "/a", "index": 1, "remove": 2, "add": [7, 8, 9]}],
    ),
    (
        PADDING | {"a": [PADDING, PADDING | {"n": 1}]},
        PADDING | {"a": [PADDING, PADDING | {"n": 2}, 5]},
        [
            {"op": "replace", "path": "/a/1/n", "value": 2},
            {"op": "add", "path": "/a/2", "value": 5},
        ],
    ),
    (
        {"a": 1, "b": 2, "c": 3},
        {"c": 4, "d": 5},
        [
            {"op": "remove", "path": "/a"},
            {"op": "remove", "path": "/b"},
            {"op": "replace", "path": "/c", "value": 4},
            {"op": "add", "path": "/d", "value": 5},
        ],
    ),
]


@pytest.mark.rule("PATCH-3")
@pytest.mark.parametrize(("old", "new", "expected"), WORKED)
def test_the_difference_is_the_small_patch_one_would_write(old: Doc, new: Doc, expected: list[Doc]) -> None:
    steps = patch.diff(old, new)
    assert json_values.equal(steps, expected)  # type: ignore[arg-type]
    assert json_values.equal(patch.apply(old, steps), new)


@pytest.mark.rule("PATCH-3", "COMMIT-3")
def test_the_difference_of_two_fields_touches_only_those_fields() -> None:
    old: Doc = {"title": "Buy milk", "done": False, "tags": ["home"], "notes": TEXT, "owner": "did:key:z6Mk"}
    steps = patch.diff(old, old | {"done": True, "owner": "did:key:z6Mj"})
    assert set(patch.footprint(steps).writes) == {"/done", "/owner"}


@pytest.mark.rule("PATCH-3")
def test_a_difference_never_has_more_operations_than_a_patch_may_have() -> None:
    most = DEFAULTS.patch_operations_max
    old: Doc = {str(number): [TEXT, 0] for number in range(most + 1)}
    at_most: Doc = old | {str(number): [TEXT, 1] for number in range(most)}
    assert len(patch.diff(old, at_most)) == most
    one_more: Doc = {str(number): [TEXT, 1] for number in range(most + 1)}
    assert patch.diff(old, one_more) == [{"op": "replace", "path": "", "value": one_more}]
    # Inside an array one splice can still do.
    array: Doc = {"a": [[TEXT, 0]] * (most + 1), "b": TEXT * most * 2}
    changed: Doc = array | {"a": [[TEXT, 1]] * (most + 1)}
    steps = patch.diff(array, changed)
    assert [step["op"] for step in steps] == ["splice"]


@pytest.mark.rule("PATCH-3")
def test_long_arrays_that_differ_much_are_soon_given_up_as_one_change() -> None:
    old: Doc = list(range(100_000))
    assert patch.diff(old, [*old[:50_000], -1, *old[50_000:]]) == [{"op": "add", "path": "/50000", "value": -1}]
    assert [step["op"] for step in patch.diff(old, [number + 1 for number in old])] == ["remove", "add"]
    assert [step["op"] for step in patch.diff(old, old[::-1])] == ["splice"]


@pytest.mark.rule("PATCH-3")
def test_the_search_gives_up_by_the_number_of_edits_and_by_the_number_of_comparisons() -> None:
    def marked(length: int, marks: int, mark: bytes) -> list[bytes]:
        return [mark if index % (length // marks) == 0 else b"" for index in range(length)]

    few = EDITS_MAX // 2
    assert len(align(marked(320, few, b"old"), marked(320, few, b"new"))) == few
    assert align(marked(330, few + 1, b"old"), marked(330, few + 1, b"new")) == [Hunk(0, 330, 0, 330)]
    # In what repeats itself much is equal at every shift, so that each further edit walks over it again.
    rng = random.Random(3)
    old, new = [b"0", b"1"] * 100_000, [b"0", b"1"] * 100_000
    for _ in range(14):
        old[rng.randrange(200_000)], new[rng.randrange(200_000)] = b"old", b"new"
    assert align(old, new) == [Hunk(0, 200_000, 0, 200_000)]


@pytest.mark.rule("PATCH-3")
def test_deeply_nested_arrays_are_compared_in_bounded_time() -> None:
    def nested(leaf: int) -> Doc:
        value: Doc = [leaf, TEXT]
        for level in range(60):
            value = [leaf, value, level, value if level < 3 else leaf]
        return value

    old, new = nested(1), nested(2)
    assert json_values.equal(patch.apply(old, patch.diff(old, new)), new)


@pytest.mark.rule("PATCH-3")
def test_the_fewest_insertions_and_removals_are_found() -> None:
    rng = random.Random(7)
    for _ in range(500):
        old, new = ([bytes([rng.randrange(3)]) for _ in range(rng.randrange(9))] for _ in range(2))
        hunks = align(old, new)
        rebuilt, done = [], 0
        for hunk in hunks:
            rebuilt += old[done : hunk.old_start] + new[hunk.new_start : hunk.new_end]
            assert len(rebuilt) == hunk.new_end
            done = hunk.old_end
        assert rebuilt + old[done:] == new
        assert sum(hunk.removes + hunk.adds for hunk in hunks) == len(old) + len(new) - 2 * longest_common(old, new)


def longest_common(old: list[bytes], new: list[bytes]) -> int:
    """The length of the longest common subsequence, by its definition."""
    if not old or not new:
        return 0
    if old[0] == new[0]:
        return 1 + longest_common(old[1:], new[1:])
    return max(longest_common(old[1:], new), longest_common(old, new[1:]))


# ---------------------------------------------------------------- against the `jsonpatch` package


def realistic_edits(count: int) -> list[tuple[Doc, Doc]]:
    """Documents as applications keep them, and the edits that people and agents make to them."""
    rng = random.Random(1)
    words = TEXT.split()

    def document() -> Doc:
        items = [{"id": n, "text": " ".join(rng.sample(words, 5)), "done": rng.random() < 0.5} for n in range(12)]
        meta = {"author": "did:key:z6Mk", "created": 1_700_000_000_000, "tags": rng.sample(words, 4)}
        return {"title": " ".join(rng.sample(words, 3)), "items": items, "meta": meta, "scores": [0] * 8}

    edits: list[Any] = [
        lambda doc: doc["items"].insert(rng.randrange(12), {"id": 99, "text": "new", "done": False}),
        lambda doc: doc["items"].pop(rng.randrange(12)),
        lambda doc: doc["items"][rng.randrange(11)].update(done="perhaps"),
        lambda doc: doc["items"].append(doc["items"].pop(0)),
        lambda doc: doc["meta"]["tags"].append("later"),
        lambda doc: doc["meta"]["tags"].sort(),
        lambda doc: doc.update(title="another title"),
        lambda doc: doc["meta"].pop("author", None),
        lambda doc: doc["scores"].__setitem__(rng.randrange(8), rng.randrange(100)),
        lambda doc: doc.update(archived={"by": "someone", "at": 1}),
    ]
    pairs = []
    for _ in range(count):
        old = document()
        new = copy.deepcopy(old)
        for edit in rng.sample(edits, rng.randint(1, 3)):
            edit(new)
        pairs.append((old, new))
    return pairs


@pytest.mark.rule("PATCH-3")
def test_differences_are_no_larger_than_those_of_the_jsonpatch_package() -> None:
    ours = theirs = 0
    for old, new in realistic_edits(200):
        steps = patch.diff(old, new)
        assert json_values.equal(patch.apply(old, steps), new)
        ours += bytes_of(steps)
        theirs += bytes_of(jsonpatch.make_patch(old, new).patch)
    assert ours <= theirs, (ours, theirs)
