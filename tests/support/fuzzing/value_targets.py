"""Fuzz targets of the model: bodies, patches, schemas, queries, names and addresses, against what must agree."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec

import plain_patch
from graphs import HERE, feed, stored
from stemmadb.client.dialing.urls import server_url
from stemmadb.client.keys.names import space_name
from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidValue, LimitExceeded, PatchFailed, StemmaError
from stemmadb.protocol.model import patch, schema
from stemmadb.protocol.model.query.query import Query, prepare
from stemmadb.protocol.model.query.traversal import traverse
from stemmadb.protocol.model.values import body, ids, json_values, pointer, reference, scan
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.version import read_space_path, space_path

_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ODD_ELSEWHERE = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError, KeyError)
"""What the oracle raises; it was not made for bad input."""


def bodies(data: bytes) -> None:
    """The fast reader and the exact one agree on what is a value, and on which (MODEL-3)."""
    try:
        value, size = body.read(data)
    except InvalidValue as error:
        error.message.encode()
        _check_refused(data)
        return
    exact = scan.read(data, depth_max=DEFAULTS.depth_max)
    minimal = body.encode(value)
    assert body.encode(exact) == minimal, "both readers see the same"
    assert size == len(minimal)
    assert json_values.check(value) is value
    assert json_values.equal(body.read_stored(minimal), value)


def _check_refused(data: bytes) -> None:
    try:
        scan.read(data, depth_max=DEFAULTS.depth_max)
    except InvalidValue:
        return
    raise AssertionError("the exact reader takes what `read` refuses")


def patches(data: bytes) -> None:
    """`[value, operations]` as JSON: all ways to apply agree, and what was applied can be taken back (PATCH-1..4)."""
    read = _pair(data)
    if read is None or not isinstance(read[1], list):
        return
    value, operations = read
    try:
        operations = body.read_patch(body.encode(operations))
    except StemmaError:
        return
    before = body.encode(value)
    outcome = _applied(value, operations)
    assert body.encode(value) == before, "the old value is left as it was (PATCH-2)"
    _check_plain(value, operations, outcome)
    if not isinstance(outcome, PatchFailed):
        _check_sized(value, operations, outcome)
        _check_package(value, operations, outcome)
        back = patch.apply(outcome, patch.invert(value, operations))
        assert json_values.equal(back, value), "the inverse leads back (COMMIT-9)"
        assert json_values.equal(patch.apply(value, patch.diff(value, outcome)), outcome)
        patch.footprint(operations)


def _applied(value: Value, operations: list[dict[str, Value]]) -> Value | PatchFailed:
    try:
        return patch.apply(value, operations)
    except PatchFailed as failed:
        return failed


def _check_plain(value: Value, operations: list[dict[str, Value]], outcome: Value | PatchFailed) -> None:
    """The same as by copying the whole value, and the same operation is the first that fails."""
    expected = _by_copying(value, operations)
    if isinstance(outcome, PatchFailed) or isinstance(expected, plain_patch.CannotApply):
        assert isinstance(outcome, PatchFailed), f"it was taken, and {expected}"
        assert isinstance(expected, plain_patch.CannotApply), outcome
        assert outcome.facts["patch_index"] == expected.index
    else:
        assert plain_patch.equal(expected, outcome)


def _by_copying(value: Value, operations: list[dict[str, Value]]) -> Any:
    try:
        return plain_patch.apply(value, operations)
    except plain_patch.CannotApply as wrong:
        return wrong


def _check_sized(value: Value, operations: list[dict[str, Value]], outcome: Value) -> None:
    size = len(body.encode(value))
    try:
        sized, made = patch.apply_sized(value, size, operations, size_max=1 << 20, depth_max=DEFAULTS.depth_max)
    except LimitExceeded:
        return
    assert body.encode(sized) == body.encode(outcome)
    assert made == len(body.encode(outcome))


def _check_package(value: Value, operations: list[dict[str, Value]], outcome: Value) -> None:
    """The `jsonpatch` package gives the same where it accepts; it has no `splice` and no `increment`."""
    if any(one.get("op") in ("splice", "increment") for one in operations):
        return
    try:
        theirs = jsonpatch.apply_patch(copy.deepcopy(value), copy.deepcopy(operations))
    except _ODD_ELSEWHERE:
        return
    assert json_values.equal(theirs, outcome)


def schemas(data: bytes) -> None:
    """`[schema, value]` as JSON: refused, or it answers, twice the same, and reaches links (QUERY-2..4)."""
    read = _pair(data)
    if read is None or not isinstance(read[0], bool | dict):
        return
    written, value = read
    try:
        compiled = schema.compile(written)
        answer = compiled.matches(value)
    except StemmaError as error:
        error.message.encode()
        return
    assert answer is schema.matches(value, copy.deepcopy(written))
    try:
        narrowed = schema.narrow(schema.EVERYTHING, schema.conjuncts(compiled))
        schema.selects(narrowed, value)
        schema.reach(narrowed, value)
    except StemmaError as error:
        error.message.encode()


def traversals(data: bytes) -> None:
    """`[query, entities]` as JSON: refused, or answered with what is there and was asked for (QUERY-7)."""
    read = _pair(data)
    if read is None or not isinstance(read[1], dict):
        return
    entities = stored({id_: value for id_, value in read[1].items() if _is_id(id_)})
    try:
        query = msgspec.convert(read[0], Query)
        answer, _ = feed(traverse(prepare(query, space=HERE)), entities)
    except (StemmaError, msgspec.ValidationError):
        return
    assert answer.entities.items() <= entities.items()
    assert {visit.id for visit in answer.roots} <= answer.entities.keys()


def names(data: bytes) -> None:
    """Ids, names, pointers, references, DIDs and addresses: refused by a typed error, or in their one form."""
    text = data.decode("utf-8", "surrogateescape")
    for read in (ids.entity_id, ids.id_prefix, ids.branch_name, space_name):
        accepted = _taken(read, text)
        assert accepted is None or _taken(read, accepted) == accepted
    if (tokens := _taken(pointer.parse, text)) is not None:
        assert pointer.write(tokens) == text
    if (hash_ := _taken(reference.read, text)) is not None:
        assert reference.write(hash_) == text
    if (key := _taken(identity.public_key, text)) is not None:
        assert identity.did_of(key) == text
    if (address := _taken(server_url, text)) is not None:
        assert server_url(address) == address
    if (space := _taken(read_space_path, text)) is not None:
        assert read_space_path(space_path(space)) == space


def _taken(read: Any, text: str) -> Any:
    try:
        return read(text)
    except StemmaError as error:
        str(error).encode("utf-8", "surrogateescape")
        return None


def _is_id(text: str) -> bool:
    return _taken(ids.entity_id, text) is not None


def _pair(data: bytes) -> tuple[Any, Any] | None:
    """The two items of a JSON list that can be stored."""
    try:
        read = msgspec.json.decode(data)
        left, right = read if isinstance(read, list) and len(read) == 2 else (None, None)
        json_values.check(left)
        json_values.check(right)
    except (*_NOT_JSON, StemmaError):
        return None
    return None if right is None else (left, right)
