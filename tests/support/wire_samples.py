"""Generated messages of every kind, made from the types of their fields."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash
from stemmadb.protocol.wire.messages.fields import BODIES_OF_THE_MODEL, EncodedField

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
FLAT = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXTS, SCALARS, max_size=2)
VALUES: st.SearchStrategy[Any] = FLAT | st.lists(FLAT, max_size=2) | st.dictionaries(TEXTS, FLAT, max_size=2)
OBJECTS = st.dictionaries(TEXTS, FLAT, max_size=2)
NAMED: dict[Any, st.SearchStrategy[Any]] = {
    Hash: st.binary(min_size=32, max_size=32),
    EntityId: st.sampled_from(["urn:todo:1", "urn:ä:2", "https://example.org/x?y=1#z"]),
    BranchName: st.sampled_from(["main", "draft", "a/b.c_d-e"]),
    Did: st.just("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"),
    type(None): st.none(),
    Any: VALUES,
    str: TEXTS,
    bytes: st.binary(max_size=20),
    bool: st.booleans(),
    int: st.integers(0, 2**63 - 1),
}


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Objects of that type, within its bounds."""
    if hint in NAMED:
        return NAMED[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin is Union or origin is types.UnionType:
        return st.one_of([of(member) for member in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is ...:
        return st.lists(of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[of(item) for item in arguments])
    if origin is dict:
        return OBJECTS if arguments[1] is Any else st.dictionaries(of(arguments[0]), of(arguments[1]), max_size=3)
    return of(hint.__supertype__) if hasattr(hint, "__supertype__") else _structure(hint)


def _annotated(inner: Any, marks: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    for mark in marks:
        if isinstance(mark, EncodedField):
            return (VALUES if mark.type is None else of(mark.type)).map(encode)
    meta = next(mark for mark in marks if isinstance(mark, msgspec.Meta))
    if meta.ge is not None:
        return st.integers(int(meta.ge), int(meta.le or 2**63 - 1))
    if meta.min_length is not None:
        return st.binary(min_size=meta.min_length, max_size=meta.max_length)
    return of(inner)


def _structure(cls: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls, include_extras=True)
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(cls):
        if (cls.__name__, field.name) in BODIES_OF_THE_MODEL:
            made: st.SearchStrategy[Any] = st.none() | VALUES.map(encode)
        else:
            made = of(hints[field.name])
        fields[field.name] = made if field.required else made | st.just(_default(field))
    return st.builds(cls, **fields)


def _default(field: Any) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
