"""Random bytes and mutated messages: nothing but a typed error, on every decoder."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.wire.codec import exact
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import Codec, MsgpackCodec, read_content
from stemmadb.protocol.wire.messages import ANSWERS, REQUESTS, type_of
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.session import Ok

CASES: list[dict[str, Any]] = json.loads(
    (pathlib.Path(__file__).parents[2] / "vectors" / "messages.json").read_text()
)["cases"]
BINARY, TEXT = MsgpackCodec(), JsonCodec()
ANSWER_OF = {type_of(cls): cls.answer for cls in REQUESTS}


def _read_everything(codec: Codec, data: Any, case: dict[str, Any] | None) -> None:
    """Every way in; a typed error or a message, and a message can be sent again."""
    for read in (codec.read_client, codec.read_server):
        try:
            message = read(data)
        except StemmaError as error:
            error.message.encode()
            codec.peek(data)
            continue
        if isinstance(message, Ok):
            _read_result(codec, message, case)
        else:
            codec.encode(message)
        if isinstance(message, CommitMessage):
            _try(read_content, message.content)


def _read_result(codec: Codec, ok: Ok, case: dict[str, Any] | None) -> None:
    answers = [ANSWER_OF[case["request"]]] if case and "request" in case else ANSWERS
    for answer in answers:
        _try(codec.read_result, ok, answer)


def _try(read: Any, *arguments: Any) -> None:
    try:
        read(*arguments)
    except StemmaError as error:
        error.message.encode()


@pytest.mark.rule("WIRE-1")
@given(st.binary(max_size=60))
@settings(derandomize=True, deadline=None, max_examples=400)
def test_random_bytes_give_nothing_but_typed_errors(data: bytes) -> None:
    _read_everything(BINARY, data, None)
    _try(read_content, data)
    _try(lambda given: exact.check(given, depth_max=8), data)


@pytest.mark.rule("WIRE-1")
@given(st.text(max_size=40))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_random_text_gives_nothing_but_typed_errors(text: str) -> None:
    _read_everything(TEXT, text, None)


def _mutated(data: bytes, rng: random.Random) -> bytes:
    """One to three changes: a byte changed, removed or added, a stretch doubled, the end cut off."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(made) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(made):
            made[at] = rng.randrange(256)
        elif kind == 1:
            del made[at : at + 1]
        elif kind == 2:
            made[at:at] = bytes([rng.randrange(256)])
        elif kind == 3:
            made[at:at] = made[at : at + rng.randint(1, 20)]
        else:
            del made[at + rng.randrange(len(made)) :]
        made = made or bytearray(b"\xc0")
    return bytes(made)


def read_changed(case: dict[str, Any], rng: random.Random, rounds: int) -> int:
    """Three changed binaries and a changed text of one message in each round; gives how many were read."""
    binary = bytes.fromhex(case["msgpack_hex"])
    text = json.dumps(case["json"], ensure_ascii=False).encode()
    for _ in range(rounds):
        for _ in range(3):
            _read_everything(BINARY, _mutated(binary, rng), case)
        broken = rng.choice(["surrogateescape", "replace", "replace"])
        _read_everything(TEXT, _mutated(text, rng).decode("utf-8", broken), case)
    return 4 * rounds


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_a_changed_message_is_read_or_refused_by_a_typed_error(case: dict[str, Any]) -> None:
    read_changed(case, random.Random(case["title"]), rounds=20)


def _swapped(plain: Any, rng: random.Random) -> Any:
    """The same JSON with one part somewhere replaced by something else."""
    odd: list[Any] = [None, True, -1, 2**63, 1.5, "", "x", [], {}, [[]], {"type": "ping"}, "b3:" + "a" * 52, "AAAA"]
    if isinstance(plain, dict) and plain and rng.random() < 0.85:
        key = rng.choice(list(plain))
        return {**plain, key: _swapped(plain[key], rng)}
    if isinstance(plain, list) and plain and rng.random() < 0.85:
        at = rng.randrange(len(plain))
        return [*plain[:at], _swapped(plain[at], rng), *plain[at + 1 :]]
    return rng.choice(odd)


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_a_message_with_a_part_of_another_kind_is_read_or_refused_by_a_typed_error(case: dict[str, Any]) -> None:
    rng = random.Random(case["title"])
    for _ in range(40):
        _read_everything(TEXT, json.dumps(_swapped(case["json"], rng)), case)
