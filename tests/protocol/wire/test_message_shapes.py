"""The shape of every message is pinned: a change that an older peer would misread needs a new number (WIRE-5).

After a change on purpose:

1. if an older peer would misread the new shape, raise `PROTOCOL` in wire/version.py and the names of the
   subprotocols with it (a new optional field is refused by an older peer, so it counts as well, unless it is sent
   only to peers that announced it in `features`);
2. run `python tests/protocol/wire/test_message_shapes.py`, which writes tests/vectors/message_shapes.json again;
3. bring docs/spec/04-protocol.md and tests/vectors/messages.json in line, and say in the changelog what changed.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from stemmadb.protocol.wire.messages import ANSWERS, CLIENT_MESSAGES, REQUESTS, SERVER_MESSAGES, type_of
from stemmadb.protocol.wire.messages.fields import EncodedField
from stemmadb.protocol.wire.version import PROTOCOL, SUBPROTOCOLS

FILE = pathlib.Path(__file__).parents[2] / "vectors" / "message_shapes.json"


def shapes() -> dict[str, Any]:
    """Every message, and every part in one, with its fields, their types and bounds, as plain data."""
    parts: dict[str, Any] = {}
    return {
        "description": "The shape of every message and part; see tests/protocol/wire/test_message_shapes.py.",
        "protocol": PROTOCOL,
        "subprotocols": list(SUBPROTOCOLS),
        "client_messages": {type_of(cls): _fields(cls, parts) for cls in CLIENT_MESSAGES},
        "server_messages": {type_of(cls): _fields(cls, parts) for cls in SERVER_MESSAGES},
        "answers": {type_of(cls): cls.answer.__name__ for cls in REQUESTS},
        "parts": _with_answers(parts),
    }


def _with_answers(parts: dict[str, Any]) -> dict[str, Any]:
    for cls in ANSWERS:
        parts[cls.__name__] = _fields(cls, parts)
    return dict(sorted(parts.items()))


def _fields(cls: Any, parts: dict[str, Any]) -> dict[str, str]:
    marks = get_type_hints(cls, include_extras=True)
    made: dict[str, str] = {}
    info: Any = msgspec.inspect.type_info(cls)
    for field in info.fields:
        text = _shape(field.type, parts)
        for inner in _encoded(marks[field.name]):
            text += " of " + ("a value" if inner is None else _shape(msgspec.inspect.type_info(inner), parts))
        made[field.encode_name] = text if field.required else f"{text}, optional"
    return made


def _encoded(hint: Any) -> list[Any]:
    """What the bytes of a field hold, if it is marked."""
    found = [mark.type for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, EncodedField)]
    return found + [inner for argument in get_args(hint) for inner in _encoded(argument)]


def _shape(info: Any, parts: dict[str, Any]) -> str:
    name = type(info).__name__.removesuffix("Type").lower()
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls.__name__ not in parts:
            parts[info.cls.__name__] = {}
            parts[info.cls.__name__] = _fields(info.cls, parts)
        return info.cls.__name__ + (f"({info.tag_field}={info.tag})" if info.tag_field else "")
    if isinstance(info, msgspec.inspect.UnionType):
        return " | ".join(_shape(member, parts) for member in info.types)
    if isinstance(info, msgspec.inspect.VarTupleType):
        return f"[{_shape(info.item_type, parts)}]"
    if isinstance(info, msgspec.inspect.TupleType):
        return "(" + ", ".join(_shape(item, parts) for item in info.item_types) + ")"
    if isinstance(info, msgspec.inspect.DictType):
        return f"{{{_shape(info.value_type, parts)}}}"
    if isinstance(info, msgspec.inspect.LiteralType):
        return " | ".join(repr(value) for value in info.values)
    bounds = [f"{bound}={getattr(info, bound)}" for bound in ("ge", "le", "min_length", "max_length")
              if getattr(info, bound, None) is not None]  # fmt: skip
    return name + (f"({', '.join(bounds)})" if bounds else "")


@pytest.mark.rule("WIRE-5")
def test_no_message_changes_its_shape_without_being_told_here() -> None:
    pinned = json.loads(FILE.read_text())
    assert shapes() == pinned, "a shape changed; the first lines of this file say what to do"


@pytest.mark.rule("WIRE-1")
def test_every_message_refuses_unknown_fields_and_leaves_defaults_out() -> None:
    for cls in (*CLIENT_MESSAGES, *SERVER_MESSAGES, *ANSWERS):
        config = cls.__struct_config__
        assert (config.frozen, config.forbid_unknown_fields, config.omit_defaults) == (True, True, True), cls


@pytest.mark.rule("COMMIT-11")
def test_writes_beside_commits_carry_an_operation_id_and_a_nonce() -> None:
    writes = {
        "branch.create", "branch.delete", "tag.create", "tag.delete", "merge", "revert", "erase", "compact", "revoke",
    }  # fmt: skip
    for field in ("operation", "nonce"):
        assert {type_of(cls) for cls in REQUESTS if field in cls.__struct_fields__} == writes


if __name__ == "__main__":
    FILE.write_text(json.dumps(shapes(), indent=1) + "\n")
