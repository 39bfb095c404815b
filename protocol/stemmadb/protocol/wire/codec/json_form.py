"""The JSON form of messages, derived once from their types (WIRE-1, MODEL-4).

A form reads parsed JSON into what `msgspec.convert` takes, which then checks the shape; and writes an object as plain
JSON.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values import json_values
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec import failures
from stemmadb.protocol.wire.codec.json_leaves import Base64, Body, Plain, Reference, Result, Untyped
from stemmadb.protocol.wire.messages.fields import BODIES_OF_THE_MODEL, EncodedField


class Form(Protocol):
    """How one type of field looks in JSON."""

    def read(self, value: Any, path: str, limits: Limits) -> Any: ...

    def write(self, value: Any) -> Any: ...


class Inner:
    """Bytes that hold a part of known shape: in JSON they are that part."""

    def __init__(self, type_: Any) -> None:
        self._form = form_of(type_)
        self._type = type_
        self._decoder = msgspec.msgpack.Decoder(type_)

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        """The bytes by the fixed encoding, in which a default that was written out is left out (WIRE-1)."""
        return encode(without_defaults(convert(self._form.read(value, path, limits), self._type, inside=path)))

    def write(self, value: Any) -> Any:
        return self._form.write(self._decoder.decode(value))


def without_defaults(part: Any) -> Any:
    """A part as a plain map of the fields that differ from their defaults, in the order of its table.

    msgspec leaves out a text only if it is the same object as the default, and a text that was read is not.
    """
    if isinstance(part, msgspec.Struct):
        config = type(part).__struct_config__
        tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        fields = [(field, getattr(part, field.name)) for field in _fields(type(part))]
        return tag | {field.encode_name: without_defaults(item) for field, item in fields if item != _default(field)}
    return [without_defaults(item) for item in part] if isinstance(part, tuple) else part


@cache
def _fields(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """msgspec evaluates the annotations anew each time, which takes longer than deciding a commit."""
    return msgspec.structs.fields(cls)


class Sequence:
    def __init__(self, item: Form) -> None:
        self._item = item

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        if not isinstance(value, list):
            return value
        return [self._item.read(item, f"{path}/{index}", limits) for index, item in enumerate(value)]

    def write(self, value: Any) -> Any:
        return [self._item.write(item) for item in value]


class Positions:
    """A tuple of fixed length, each place with a type of its own."""

    def __init__(self, items: list[Form]) -> None:
        self._items = items

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        if not isinstance(value, list) or len(value) != len(self._items):
            return value
        pairs = zip(self._items, value, strict=True)
        return [form.read(item, f"{path}/{index}", limits) for index, (form, item) in enumerate(pairs)]

    def write(self, value: Any) -> Any:
        return [form.write(item) for form, item in zip(self._items, value, strict=True)]


class Mapping:
    """Names that are data, such as those of limits, with values of one type."""

    def __init__(self, item: Form) -> None:
        self._item = item

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        if not isinstance(value, dict):
            return value
        for key in value:
            if why := json_values.text_offence(key):
                raise Malformed(path=path, why=f"a key is not valid: {why}")
        return {key: self._item.read(item, f"{path}/{failures.shown(key)}", limits) for key, item in value.items()}

    def write(self, value: Any) -> Any:
        return {key: self._item.write(item) for key, item in value.items()}


class Structure:
    """A message or a part of one."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        config = cls.__struct_config__
        self._tag = (config.tag_field, config.tag) if config.tag_field is not None else None
        self._omits = config.omit_defaults
        hints = get_type_hints(cls, include_extras=True)
        self._fields = [
            (field.name, field.encode_name, _field_form(cls, field.name, hints[field.name]), _default(field))
            for field in msgspec.structs.fields(cls)
        ]
        self._forms = {name: form for _, name, form, _ in self._fields}

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        if not isinstance(value, dict):
            return value
        inside = path + "/" if path else ""
        return {key: self._read_field(key, item, inside, limits) for key, item in value.items()}

    def _read_field(self, key: str, item: Any, inside: str, limits: Limits) -> Any:
        form = self._forms.get(key, _UNTYPED)  # an unknown field is refused when the shape is checked
        return form.read(item, inside + failures.shown(key), limits)

    def write(self, value: Any) -> Any:
        if isinstance(value, msgspec.Raw):  # an item that was encoded once for many frames
            value = msgspec.msgpack.decode(value, type=self._cls)
        written: dict[str, Any] = {} if self._tag is None else {self._tag[0]: self._tag[1]}
        for attribute, name, form, default in self._fields:
            item = getattr(value, attribute)
            if not (self._omits and item == default and type(item) is type(default)):
                written[name] = None if item is None else form.write(item)
        return written


class Choice:
    """One of several types, told apart by what kind of JSON, or of object, is there."""

    def __init__(self, forms: dict[Any, Form]) -> None:
        self._forms = forms
        self._structures: dict[Any, Form] = {
            kind.__struct_config__.tag: form for kind, form in forms.items() if isinstance(kind, msgspec.StructMeta)
        }
        self._tag_field: Any = next(
            (kind.__struct_config__.tag_field for kind in forms if isinstance(kind, msgspec.StructMeta)), None
        )

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        return self._for_json(value).read(value, path, limits)

    def _for_json(self, value: Any) -> Form:
        if isinstance(value, dict) and self._structures:
            tag = value.get(self._tag_field)
            return self._structures.get(tag if isinstance(tag, str) else None, _UNTYPED)
        return self._forms.get(_KINDS.get(type(value)), _PLAIN)

    def write(self, value: Any) -> Any:
        return self._forms.get(type(value), _PLAIN).write(value)


class Optional:
    """A type or null."""

    def __init__(self, form: Form) -> None:
        self._form = form

    def read(self, value: Any, path: str, limits: Limits) -> Any:
        return None if value is None else self._form.read(value, path, limits)

    def write(self, value: Any) -> Any:
        return None if value is None else self._form.write(value)


_PLAIN = Plain()
_UNTYPED = Untyped()
_KINDS: dict[type, type] = {dict: dict, list: tuple, str: bytes}
"""Which member of a union a kind of JSON stands for, where the members are no parts."""


class _NoDefault:
    pass


def _default(field: Any) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else _NoDefault()


def _field_form(cls: type, name: str, hint: Any) -> Form:
    return Body() if (cls.__name__, name) in BODIES_OF_THE_MODEL else form_of(hint)


@cache
def form_of(hint: Any) -> Form:
    """The form of a type annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = [mark for mark in arguments[1:] if isinstance(mark, EncodedField)]
        if marks:
            return Body() if marks[0].type is None else Inner(marks[0].type)
        return form_of(arguments[0])
    if origin is Union or origin is types.UnionType:
        return _choice(arguments)
    if origin is tuple:
        return Sequence(form_of(arguments[0])) if arguments[-1] is ... else Positions([form_of(a) for a in arguments])
    if origin is dict:
        return _UNTYPED if arguments[1] is Any else Mapping(form_of(arguments[1]))
    return _single(hint)


def _single(hint: Any) -> Form:
    if hint is Hash:
        return Reference()
    if hint is msgspec.Raw:
        return Result()
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    if hint is bytes:
        return Base64()
    if isinstance(hint, msgspec.StructMeta):
        return Structure(hint)
    return _PLAIN


def _choice(members: tuple[Any, ...]) -> Form:
    """A union. Null stands for None everywhere but in a body, where it is the value null."""
    real = [member for member in members if member is not type(None)]
    if len(real) > 1:
        return Choice({_kind(member): form_of(member) for member in real})
    form = form_of(real[0])
    return form if isinstance(form, Body | Inner) else Optional(form)


def _kind(member: Any) -> Any:
    """What tells the members of a union apart: a struct by itself, anything else by its plain type."""
    origin = get_origin(member)
    assert origin is not Annotated, "no union of messages has a member with bounds of its own"
    if origin is not None:
        return origin
    while hasattr(member, "__supertype__"):
        member = member.__supertype__
    return member


def convert(value: Any, type_: Any, *, inside: str = "") -> Any:
    """The object of that type, its shape checked; `Malformed` otherwise."""
    try:
        return msgspec.convert(value, type_, builtin_types=(bytes,))
    except failures.DecoderFailures as failure:
        raise failures.malformed(failure, inside=inside) from None
