"""The footprint of each operation, and the worked cases of inverses."""

from __future__ import annotations

from typing import Any

import pytest

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values.json_values import INT_MIN

Doc = Any

FOOTPRINTS: list[tuple[Doc, list[str], list[str], list[str]]] = [
    ({"op": "add", "path": "/a/b", "value": 1}, ["/a/b"], [], []),
    ({"op": "add", "path": "/a/0", "value": 1}, ["/a"], [], []),
    ({"op": "add", "path": "/a/-", "value": 1}, ["/a"], [], []),
    ({"op": "add", "path": "/7", "value": 1}, [""], [], []),
    ({"op": "add", "path": "/a/007", "value": 1}, ["/a"], [], []),
    ({"op": "add", "path": "/a/\u0663", "value": 1}, ["/a/\u0663"], [], []),
    ({"op": "add", "path": "", "value": 1}, [""], [], []),
    ({"op": "add", "path": "/a/", "value": 1}, ["/a/"], [], []),
    ({"op": "replace", "path": "/a/0", "value": 1}, ["/a/0"], [], []),
    ({"op": "remove", "path": "/a~1b/m~0n"}, ["/a~1b/m~0n"], [], []),
    ({"op": "remove", "path": "/a/12"}, ["/a"], [], []),
    ({"op": "move", "from": "/a/1", "path": "/b/x"}, ["/a", "/b/x"], ["/a/1"], []),
    ({"op": "move", "from": "/x", "path": "/b/-"}, ["/x", "/b"], ["/x"], []),
    ({"op": "copy", "from": "/a/1", "path": "/b/0"}, ["/b"], ["/a/1"], []),
    ({"op": "test", "path": "/a/1", "value": None}, [], ["/a/1"], []),
    ({"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": []}, ["/a"], [], []),
    ({"op": "splice", "path": "/a/0", "index": 0, "remove": 0, "add": []}, ["/a"], [], []),
    ({"op": "increment", "path": "/a/0", "by": 1}, ["/a/0"], [], ["/a/0"]),
]


@pytest.mark.rule("PATCH-4")
@pytest.mark.parametrize(("operation", "writes", "reads", "increments"), FOOTPRINTS)
def test_each_operation_writes_and_reads_its_paths(
    operation: Doc, writes: list[str], reads: list[str], increments: list[str]
) -> None:
    found = patch.footprint([operation, operation])
    assert (list(found.writes), list(found.reads), list(found.increments)) == (writes, reads, increments)


@pytest.mark.rule("PATCH-4", "COMMIT-3")
def test_a_path_that_something_else_writes_too_is_no_mere_increment() -> None:
    up: Doc = {"op": "increment", "path": "/n", "by": 1}
    put: Doc = {"op": "replace", "path": "/n", "value": 1}
    other: Doc = {"op": "increment", "path": "/m", "by": 1}
    for operations in ([up, put, other], [put, up, other], [up, put, up, other]):
        assert patch.footprint(operations) == patch.Footprint(("/n", "/m"), (), ("/m",))


@pytest.mark.rule("PATCH-4")
def test_an_empty_patch_touches_nothing() -> None:
    assert patch.footprint([]) == patch.Footprint((), (), ())


# ---------------------------------------------------------------- inverses

VALUE: Doc = {"a": [1, {"k": 1}, 3], "o": {"k": [1]}, "n": 5, "f": 0.5}

INVERSES: list[tuple[Doc, list[Doc]]] = [
    ({"op": "add", "path": "/new", "value": 1}, [{"op": "remove", "path": "/new"}]),
    ({"op": "add", "path": "/n", "value": 1}, [{"op": "replace", "path": "/n", "value": 5}]),
    ({"op": "add", "path": "/a/-", "value": 1}, [{"op": "remove", "path": "/a/3"}]),
    ({"op": "add", "path": "/a/0", "value": 1}, [{"op": "remove", "path": "/a/0"}]),
    ({"op": "add", "path": "", "value": 1}, [{"op": "replace", "path": "", "value": VALUE}]),
    ({"op": "replace", "path": "/a/1/k", "value": 2}, [{"op": "replace", "path": "/a/1/k", "value": 1}]),
    ({"op": "remove", "path": "/a/1"}, [{"op": "add", "path": "/a/1", "value": {"k": 1}}]),
    ({"op": "copy", "from": "/n", "path": "/a/1"}, [{"op": "remove", "path": "/a/1"}]),
    ({"op": "test", "path": "/n", "value": 5}, []),
    ({"op": "move", "from": "/n", "path": "/n"}, []),
    ({"op": "move", "from": "/n", "path": "/a/-"}, [{"op": "move", "from": "/a/3", "path": "/n"}]),
    ({"op": "move", "from": "/a/0", "path": "/a/2"}, [{"op": "move", "from": "/a/2", "path": "/a/0"}]),
    (
        {"op": "move", "from": "/n", "path": "/f"},
        [{"op": "replace", "path": "/f", "value": 0.5}, {"op": "add", "path": "/n", "value": 5}],
    ),
    (
        {"op": "move", "from": "/a/1/k", "path": "/a/1"},
        [{"op": "remove", "path": "/a/1"}, {"op": "add", "path": "/a/1/k", "value": 1}],
    ),
    (
        {"op": "splice", "path": "/a", "index": 1, "remove": 2, "add": [8, 9, 0]},
        [{"op": "splice", "path": "/a", "index": 1, "remove": 3, "add": [{"k": 1}, 3]}],
    ),
    ({"op": "increment", "path": "/n", "by": 2}, [{"op": "increment", "path": "/n", "by": -2}]),
    ({"op": "increment", "path": "/n", "by": INT_MIN}, [{"op": "replace", "path": "/n", "value": 5}]),
    ({"op": "increment", "path": "/n", "by": 0.5}, [{"op": "replace", "path": "/n", "value": 5}]),
    ({"op": "increment", "path": "/f", "by": 1}, [{"op": "replace", "path": "/f", "value": 0.5}]),
]


@pytest.mark.rule("COMMIT-9")
@pytest.mark.parametrize(("operation", "inverse"), INVERSES)
def test_each_operation_has_its_inverse(operation: Doc, inverse: list[Doc]) -> None:
    assert patch.invert(VALUE, [operation]) == inverse
    assert patch.apply(patch.apply(VALUE, [operation]), inverse) == VALUE


@pytest.mark.rule("COMMIT-9")
def test_the_undo_of_an_increment_keeps_the_increments_of_others() -> None:
    mine: Doc = [{"op": "increment", "path": "/n", "by": 2}]
    others: Doc = [{"op": "increment", "path": "/n", "by": 100}]
    now = patch.apply(patch.apply(VALUE, mine), others)
    assert patch.apply(now, patch.invert(VALUE, mine)) == VALUE | {"n": 105}
