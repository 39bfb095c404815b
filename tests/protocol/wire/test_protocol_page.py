"""docs/spec/04-protocol.md is complete and true: its examples decode, its tables are the messages (WIRE-6)."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import msgspec
import pytest

from stemmadb.protocol import errors, identity
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.commit import request
from stemmadb.protocol.model.commit.request import Content, Operation, Read
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.log import commit_record, facts
from stemmadb.protocol.model.log.commit_record import Contested
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.query.window import AfterRow, OrderBy
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire import version
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.messages import ANSWERS, CLIENT_MESSAGES, REQUESTS, SERVER_MESSAGES, type_of
from stemmadb.protocol.wire.messages.base import Done, Part
from stemmadb.protocol.wire.messages.session import Ok

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "spec" / "04-protocol.md").read_text()
SHAPES: dict[str, Any] = json.loads(
    (pathlib.Path(__file__).parents[2] / "vectors" / "message_shapes.json").read_text()
)
SECTIONS = dict(re.findall(r"^#{3,4} (\S+)\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL))
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| .* \|$", re.MULTILINE)
EXAMPLES = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CLIENT = {type_of(cls) for cls in CLIENT_MESSAGES}
ANSWER_OF = {type_of(cls): cls.answer for cls in REQUESTS}
OF_THE_MODEL: list[Any] = [Content, Operation, Read, Query, Root, OrderBy, AfterRow, StaleRead, Contested, Rights]


def tables(text: str) -> list[dict[str, bool]]:
    """The tables of a section: each field, and whether it must be there."""
    found = re.split(r"^\| field \| type \| meaning \|$", text, flags=re.MULTILINE)[1:]
    return [
        {name: not re.search(r", (optional|default)", type_) for name, type_ in ROW.findall(one)} for one in found
    ]


def fields(cls: Any) -> dict[str, bool]:
    return {field.encode_name: field.required for field in msgspec.structs.fields(cls)}


@pytest.mark.rule("WIRE-6")
@pytest.mark.parametrize("cls", [*CLIENT_MESSAGES, *SERVER_MESSAGES], ids=type_of)
def test_every_message_is_described_field_by_field(cls: Any) -> None:
    assert tables(SECTIONS[type_of(cls)])[0] == fields(cls)


@pytest.mark.rule("WIRE-6")
@pytest.mark.parametrize("cls", [cls for cls in REQUESTS if cls.answer is not Done], ids=type_of)
def test_every_answer_is_described_field_by_field(cls: Any) -> None:
    everywhere = [table for section in SECTIONS.values() for table in tables(section)]
    described = tables(SECTIONS[type_of(cls)])[1:] or everywhere
    assert fields(cls.answer) in described


@pytest.mark.rule("WIRE-6")
def test_every_part_of_a_message_is_described_field_by_field() -> None:
    known = {cls.__name__: cls for cls in [*_all_parts(Part), *OF_THE_MODEL]}
    answers = {cls.__name__ for cls in ANSWERS} - {"Written"}
    arguments = {name for name in SHAPES["parts"] if name in vars(commit_record)} - {"Contested"}
    for name in set(SHAPES["parts"]) - answers - arguments:
        assert tables(SECTIONS[name])[0] == fields(known[name]), name


NEVER_NULL = re.compile(r"\[.*\]|bool|object( of .*)?")


@pytest.mark.rule("WIRE-1", "WIRE-6")
def test_null_may_stand_for_exactly_the_optional_fields_that_the_page_says() -> None:
    known: dict[str, Any] = {cls.__name__: cls for cls in [*_all_parts(Part), *OF_THE_MODEL]}
    known |= {type_of(cls): cls for cls in (*CLIENT_MESSAGES, *SERVER_MESSAGES)}
    for name in set(SECTIONS) & set(known):
        table = re.split(r"^\| field \| type \| meaning \|$", SECTIONS[name], flags=re.MULTILINE)[1]
        described = {field: type_.removesuffix(", optional") for field, type_ in ROW.findall(table)
                     if type_.endswith(", optional")}  # fmt: skip
        may_be_null = {field for field, type_ in described.items() if not NEVER_NULL.fullmatch(type_)}
        assert may_be_null == _nullable(known[name]), name


def _nullable(cls: Any) -> set[str]:
    info: Any = msgspec.inspect.type_info(cls)
    return {
        field.encode_name
        for field in info.fields
        if any(isinstance(one, msgspec.inspect.NoneType) for one in getattr(field.type, "types", ()))
    }


def _all_parts(cls: type[Part]) -> list[type[Part]]:
    return [cls, *(leaf for child in cls.__subclasses__() for leaf in _all_parts(child))]


@pytest.mark.rule("WIRE-6")
def test_the_examples_of_the_page_can_be_read() -> None:
    codec, seen, asked = JsonCodec(), set(), ""
    for text in EXAMPLES:
        type_ = json.loads(text)["type"]
        seen.add(type_)
        if type_ in CLIENT:
            codec.read_client(text)
            asked = type_
            continue
        message = codec.read_server(text)
        if isinstance(message, Ok):
            codec.read_result(message, ANSWER_OF[asked])
    assert seen == CLIENT | {type_of(cls) for cls in SERVER_MESSAGES}


@pytest.mark.rule("WIRE-4", "WIRE-6")
def test_every_error_code_is_listed_and_whether_trying_again_helps() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|", PAGE, re.MULTILINE))
    assert listed == {code: "yes" if cls.retriable else "no" for code, cls in errors.BY_CODE.items()}


@pytest.mark.rule("WIRE-4", "WIRE-6")
def test_the_table_of_error_codes_has_exactly_the_keys_that_the_code_sends() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?:yes|no) \| (.*?) \|", PAGE, re.MULTILINE)
    listed = {code: set(re.findall(r"`(\w+)`", keys)) for code, keys in rows}
    assert listed == {code: set(cls.detail_keys()) for code, cls in errors.BY_CODE.items()}


@pytest.mark.rule("WIRE-6")
def test_every_preimage_and_name_is_there() -> None:
    tags = [
        facts.TAG_EMPTY, facts.TAG_FACT, commit_record.TAG_COMMIT, commit_record.TAG_GENESIS, request.TAG_REQUEST,
        identity.TAG_SESSION_OPEN,
    ]  # fmt: skip
    for text in (
        *[f'msgpack ["{tag}", ' for tag in tags],
        *version.SUBPROTOCOLS,
        version.space_path(Did("<did>")),
    ):
        assert text in PAGE, text
