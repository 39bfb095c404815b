"""Applying patches: the public cases, bad input, sharing, and the bounds at their edges."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stemmadb.protocol.errors import PatchFailed
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.values import json_values
from stemmadb.protocol.model.values.json_values import INT_MAX, INT_MIN

Doc = Any
DATA = Path(__file__).parents[2] / "data" / "json-patch-tests"


def public_cases() -> list[Any]:
    found = []
    for name in ("spec_tests", "tests"):
        for number, case in enumerate(json.loads((DATA / f"{name}.json").read_text())):
            if not case.get("disabled") and "doc" in case:
                found.append(pytest.param(case, id=f"{name}-{number}"))
    return found


def encoded_length(value: Doc) -> int:
    return len(msgspec.msgpack.encode(value))


def sized(value: Doc, operations: list[Doc], size_max: int = 10**6, depth_max: int = 64) -> tuple[Doc, int]:
    return patch.apply_sized(value, encoded_length(value), operations, size_max=size_max, depth_max=depth_max)


# ---------------------------------------------------------------- the public cases


@pytest.mark.rule("PATCH-1", "PATCH-3")
@pytest.mark.parametrize("case", public_cases())
def test_every_enabled_case_of_json_patch_tests_holds(case: dict[str, Any]) -> None:
    value, before = case["doc"], copy.deepcopy(case["doc"])
    if "error" in case:
        with pytest.raises(PatchFailed):
            patch.apply(value, case["patch"])
    else:
        result = patch.apply(value, case["patch"])
        assert json_values.equal(result, case.get("expected", result))
        assert sized(value, case["patch"]) == (result, encoded_length(result))
        assert json_values.equal(patch.apply(result, patch.invert(value, case["patch"])), before)
    assert json_values.equal(value, before)


@pytest.mark.rule("PATCH-3")
def test_no_public_case_was_lost() -> None:
    assert len(public_cases()) > 100


# ---------------------------------------------------------------- ours


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize(
    ("index", "remove", "add", "expected"),
    [
        (0, 0, [], [1, 2, 3]),
        (0, 0, [9], [9, 1, 2, 3]),
        (3, 0, [8, 9], [1, 2, 3, 8, 9]),
        (1, 1, [[]], [1, [], 3]),
        (0, 3, [], []),
        (2, 1, [7, 7], [1, 2, 7, 7]),
    ],
)
def test_a_splice_cuts_out_and_puts_in(index: int, remove: int, add: list[Doc], expected: list[Doc]) -> None:
    operation: Doc = {"op": "splice", "path": "/a", "index": index, "remove": remove, "add": add}
    assert patch.apply({"a": [1, 2, 3]}, [operation]) == {"a": expected}


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize(
    ("number", "by", "expected"),
    [(1, 2, 3), (1, -2, -1), (INT_MAX - 1, 1, INT_MAX), (INT_MIN + 1, -1, INT_MIN), (1, 0.5, 1.5), (0.5, 1, 1.5)],
)
def test_an_increment_adds_and_an_integer_stays_one(number: Doc, by: Doc, expected: Doc) -> None:
    assert patch.apply([number], [{"op": "increment", "path": "/0", "by": by}]) == [expected]
    assert patch.apply({"n": number}, [{"op": "increment", "path": "/n", "by": by}]) == {"n": expected}
    total = patch.apply(number, [{"op": "increment", "path": "", "by": by}])
    assert total == expected
    assert type(total) is type(expected)


@pytest.mark.rule("PATCH-1", "MODEL-3")
def test_a_test_knows_a_bool_from_a_number_and_compares_numbers_by_value() -> None:
    value: Doc = {"n": 1, "deep": [{"b": True}]}
    patch.apply(value, [{"op": "test", "path": "/n", "value": 1.0}])
    patch.apply(value, [{"op": "test", "path": "/deep", "value": [{"b": True}]}])
    others: list[tuple[str, Doc]] = [("/n", True), ("/deep", [{"b": 1}]), ("/deep/0/b", 1)]
    for path, other in others:
        with pytest.raises(PatchFailed):
            patch.apply(value, [{"op": "test", "path": path, "value": other}])


@pytest.mark.rule("PATCH-1")
def test_a_move_to_where_it_is_changes_nothing_but_needs_something_there() -> None:
    assert patch.apply({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}]) == {"a": 1}
    assert patch.apply(7, [{"op": "move", "from": "", "path": ""}]) == 7
    with pytest.raises(PatchFailed):
        patch.apply({"a": 1}, [{"op": "move", "from": "/b", "path": "/b"}])


@pytest.mark.rule("PATCH-1")
def test_members_an_operation_does_not_use_are_ignored() -> None:
    assert (
        patch.apply({"a": 1}, [{"op": "remove", "path": "/a", "value": 5, "from": None, "by": "x", "why": []}]) == {}
    )


# ---------------------------------------------------------------- bad input

VALUE: Doc = {"a": [1, 2], "o": {"k": True}, "n": 1, "s": "text", "max": INT_MAX, "min": INT_MIN, "f": 1.5e308}


def shown(operation: Doc) -> str:
    return repr(operation)[:60].encode("ascii", "replace").decode()


MALFORMED: list[Doc] = [
    None, 5, "remove", [], ["op", "remove"], True,
    {}, {"op": None, "path": ""}, {"op": 1, "path": ""}, {"op": [], "path": ""}, {"op": {}, "path": ""},
    {"op": "spam", "path": ""}, {"op": "ADD", "path": "/x", "value": 1}, {"op": "\ud800" * 900, "path": ""},
    {"op": "add", "value": 1}, {"op": "add", "path": None, "value": 1}, {"op": "add", "path": 1, "value": 1},
    {"op": "add", "path": ["a"], "value": 1}, {"op": "add", "path": "/x"}, {"op": "replace", "path": "/n"},
    {"op": "test", "path": "/n"}, {"op": "remove"}, {"op": "remove", "path": {}},
    {"op": "add", "path": "x", "value": 1}, {"op": "add", "path": "/~", "value": 1},
    {"op": "add", "path": "/~2", "value": 1}, {"op": "add", "path": "\ud800", "value": 1},
    {"op": "move", "path": "/x"}, {"op": "move", "from": 1, "path": "/x"}, {"op": "move", "from": "n", "path": "/x"},
    {"op": "copy", "path": "/x"}, {"op": "copy", "from": None, "path": "/x"}, {"op": "copy", "from": "/n"},
    {"op": "copy", "from": "/~x", "path": "/x"}, {"op": "move", "from": "/n"},
    {"op": "move", "from": "/o", "path": "/o/k"}, {"op": "move", "from": "", "path": "/x"},
    {"op": "increment", "path": "/n"}, {"op": "increment", "path": "/n", "by": None},
    {"op": "increment", "path": "/n", "by": True}, {"op": "increment", "path": "/n", "by": "1"},
    {"op": "increment", "path": "/n", "by": [1]}, {"op": "increment", "by": 1},
    {"op": "splice", "index": 0, "remove": 0, "add": []},
    {"op": "splice", "path": "/a", "remove": 0, "add": []}, {"op": "splice", "path": "/a", "index": 0, "add": []},
    {"op": "splice", "path": "/a", "index": 0, "remove": 0},
    {"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": {}},
    {"op": "splice", "path": "/a", "index": -1, "remove": 0, "add": []},
    {"op": "splice", "path": "/a", "index": 0, "remove": -1, "add": []},
    {"op": "splice", "path": "/a", "index": 1.0, "remove": 0, "add": []},
    {"op": "splice", "path": "/a", "index": True, "remove": 0, "add": []},
    {"op": "splice", "path": "/a", "index": "0", "remove": 0, "add": []},
]  # fmt: skip

NOT_INDEXES = ["3", "01", "-1", "1e0", "", "x", "9" * 5000, "\u0663", "1.0", " 1", "+1"]
NO_ELEMENTS = ["2", "-", "00", "-0"]
NEED_ONE = ["replace", "remove", "test"]
NEED_HOLDER = ["add", *NEED_ONE]
NO_NUMBERS = ["", "/a", "/o", "/o/k", "/s", "/max", "/missing", "/a/2"]

UNFIT: list[Doc] = [
    *({"op": "add", "path": f"/a/{index}", "value": 1} for index in NOT_INDEXES),
    *({"op": kind, "path": f"/a/{index}", "value": 1} for kind in NEED_ONE for index in NO_ELEMENTS),
    *({"op": kind, "from": "/a/-", "path": "/x"} for kind in ("move", "copy")),
    *({"op": kind, "path": "/missing", "value": 1} for kind in NEED_ONE),
    *({"op": kind, "path": "/missing/deeper", "value": 1} for kind in NEED_HOLDER),
    *({"op": kind, "path": f"/{leaf}/x", "value": 1} for kind in NEED_HOLDER for leaf in ("n", "s")),
    *({"op": kind, "path": "/s/0", "value": "t"} for kind in NEED_HOLDER),
    *({"op": kind, "from": "/missing", "path": "/x"} for kind in ("move", "copy")),
    *({"op": kind, "from": "/n", "path": "/missing/x"} for kind in ("move", "copy")),
    {"op": "remove", "path": ""},
    {"op": "test", "path": "/o/k", "value": 1},
    {"op": "test", "path": "/n", "value": True},
    {"op": "test", "path": "", "value": None},
    *({"op": "increment", "path": path, "by": 1} for path in NO_NUMBERS),
    {"op": "increment", "path": "/min", "by": -1},
    {"op": "increment", "path": "/f", "by": 1.5e308},
    {"op": "splice", "path": "/o", "index": 0, "remove": 0, "add": []},
    {"op": "splice", "path": "/n", "index": 0, "remove": 0, "add": []},
    {"op": "splice", "path": "/missing", "index": 0, "remove": 0, "add": []},
    {"op": "splice", "path": "/a", "index": 3, "remove": 0, "add": []},
    {"op": "splice", "path": "/a", "index": 1, "remove": 2, "add": []},
    {"op": "splice", "path": "/a", "index": 2**70, "remove": 2**70, "add": []},
]  # fmt: skip


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize("operation", MALFORMED + UNFIT, ids=shown)
def test_a_bad_operation_fails_with_its_index_and_leaves_nothing(operation: Doc) -> None:
    before = copy.deepcopy(VALUE)
    operations: Doc = [{"op": "add", "path": "/a/0", "value": 0}, {"op": "remove", "path": "/a/0"}, operation]
    for attempt in (patch.apply, sized, patch.invert):
        with pytest.raises(PatchFailed) as failed:
            attempt(VALUE, operations)
        assert failed.value.facts["patch_index"] == 2
        assert failed.value.facts["why"]
        assert len(failed.value.message.encode()) < 2_000  # it goes on the wire: short, and without lone surrogates
        assert len(failed.value.facts["path"].encode()) < 2_000
    assert json_values.equal(VALUE, before)


@pytest.mark.rule("PATCH-4")
@pytest.mark.parametrize("operation", MALFORMED, ids=shown)
def test_a_malformed_operation_has_no_footprint(operation: Doc) -> None:
    with pytest.raises(PatchFailed) as failed:
        patch.footprint([{"op": "remove", "path": "/a"}, operation])
    assert failed.value.facts["patch_index"] == 1


@pytest.mark.rule("PATCH-1", "PATCH-4")
@pytest.mark.parametrize("operations", [None, 5, "[]", {}, {"op": "remove", "path": "/n"}, b"", iter([])])
def test_a_patch_that_is_not_a_list_is_refused(operations: Doc) -> None:
    for attempt in (lambda: patch.apply(VALUE, operations), lambda: patch.footprint(operations)):
        with pytest.raises(PatchFailed, match="a list of operations"):
            attempt()


@pytest.mark.rule("PATCH-1")
def test_the_error_names_the_operation_the_path_and_the_reason() -> None:
    with pytest.raises(PatchFailed) as failed:
        patch.apply(
            VALUE, [{"op": "add", "path": "/new", "value": 1}, {"op": "replace", "path": "/o/gone", "value": 1}]
        )
    assert failed.value.facts == {"patch_index": 1, "path": "/o/gone", "why": "there is nothing at '/o/gone'"}
    assert "new" not in VALUE
