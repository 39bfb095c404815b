"""Errors cross the wire as the same class with the same facts, and never fail on the way (WIRE-4, SYNC-5)."""

from __future__ import annotations

from typing import Any

import pytest

from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec.json_codec import JsonCodec
from stemmadb.protocol.wire.codec.msgpack_codec import Codec, MsgpackCodec
from stemmadb.protocol.wire.connection import problems
from stemmadb.protocol.wire.messages.commit import Current, RejectedVerdict
from stemmadb.protocol.wire.messages.session import ErrorMessage
from stemmadb.protocol.wire.messages.sync import Sync

CODECS: list[Codec] = [MsgpackCodec(), JsonCodec()]
STALE = StaleRead(
    branch=BranchName("main"), id=EntityId("urn:a:1"), path="/x", read=Version(1), head=Version(3), winner=Version(2),
    author=Did("did:key:z"),
)  # fmt: skip
HASH = Hash(bytes(32))


def crossed(error: errors.StemmaError, codec: Codec) -> errors.StemmaError:
    message = codec.read_server(codec.encode(problems.error_message(error, id_=1)))
    assert isinstance(message, ErrorMessage)
    assert message.retriable is error.retriable
    return problems.restore(message)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("cls", errors.BY_CODE.values(), ids=lambda cls: cls.code)
def test_every_error_is_the_same_class_on_the_other_side(cls: type[errors.StemmaError]) -> None:
    for codec in CODECS:
        facts = {key: "/x" if key == "path" else key for key in cls.detail_keys() if key != "stale"}
        error = crossed(cls("it happened", **facts, undocumented=1), codec)
        assert type(error) is cls
        assert error.message == "it happened"
        assert {key: fact for key, fact in error.facts.items() if key != "stale"} == facts


@pytest.mark.rule("WIRE-4")
def test_an_error_of_a_newer_server_stays_readable() -> None:
    message = ErrorMessage(id=1, code="too_new", message="A new thing went wrong.", details={"x": 1})
    error = problems.restore(message)
    assert isinstance(error, errors.Internal)
    assert (error.message, error.facts) == ("A new thing went wrong.", {"x": 1, "code": "too_new"})


@pytest.mark.rule("SYNC-5")
def test_a_conflict_in_an_answer_brings_its_stale_reads_back_as_objects() -> None:
    for codec in CODECS:
        error = crossed(errors.Conflict(count=1, stale=(STALE,)), codec)
        assert error.facts["stale"] == (STALE,)


@pytest.mark.rule("SYNC-5")
@pytest.mark.parametrize("listed", [None, 5, [{"id": "urn:a:1"}]])
def test_stale_reads_that_are_none_stay_as_they_came(listed: Any) -> None:
    error = problems.restore(ErrorMessage(id=1, code="conflict", message="", details={"stale": listed}))
    assert error.facts["stale"] == listed


def _current(size: int, number: int = 1) -> Current:
    return Current(
        branch=BranchName("main"), id=EntityId(f"urn:a:{number}"), version=Version(3), hash=HASH, body=bytes(size)
    )


@pytest.mark.rule("SYNC-5")
def test_a_rejection_explains_itself_with_stale_reads_and_current_values() -> None:
    verdict = problems.rejected(
        Local(4), errors.Conflict(count=1, stale=(STALE,)), session=bytes(16), current=[_current(1)]
    )
    assert (verdict.local, verdict.session, verdict.code, verdict.details) == (4, bytes(16), "conflict", {"count": 1})
    frame = Sync(from_=Version(3), to=Version(3), hash=HASH, verdicts=(verdict,))
    for codec in CODECS[:1]:
        assert codec.read_server(codec.encode(frame)) == frame
    error = problems.restore(verdict)
    assert isinstance(error, errors.Conflict)
    assert (error.facts["stale"], error.facts["current"]) == ((STALE,), (_current(1),))


@pytest.mark.rule("SYNC-5")
def test_a_rejection_stays_within_its_bounds() -> None:
    limits = Limits(page_max=2, part_bytes_max=400)
    given = [_current(93, 1), _current(2, 2), _current(1, 3)]  # 93 + 7 fill the quarter of a part exactly
    verdict = problems.rejected(Local(1), errors.Conflict(count=5, stale=(STALE,) * 5), current=given, limits=limits)
    assert (len(verdict.stale), verdict.details, verdict.current) == (2, {"count": 5}, (given[0],))
    given[0] = _current(94, 1)
    verdict = problems.rejected(Local(1), errors.Conflict(count=5, stale=()), current=given, limits=limits)
    assert verdict.current == (given[1], given[2])


@pytest.mark.rule("WIRE-4")
def test_a_rejection_for_another_reason_has_neither() -> None:
    verdict = problems.rejected(Local(2), errors.Dependency(local=1))
    assert isinstance(verdict, RejectedVerdict)
    assert (verdict.stale, verdict.current, verdict.details) == ((), (), {"local": 1})


class _Odd:
    def __str__(self) -> str:
        return "odd \ud800"


FACTS: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (5, 5),
    (2**70, "1.180592e+21"),
    (1.5, 1.5),
    (float("inf"), "inf"),
    (b"\x00", "AA=="),
    (bytes(32), reference.write(bytes(32))),
    (Missing.ERASED, "erased"),
    ((1, "x"), [1, "x"]),
    ({"a": (b"\x00",)}, {"a": ["AA=="]}),
    ({1: 2}, {"1": 2}),
    (frozenset({1}), [1]),
    ("\ud800", "\\ud800"),
    ("ä", "ä"),
    (_Odd(), "odd \\ud800"),
    (STALE, {
        "branch": "main", "id": "urn:a:1", "path": "/x", "read": 1, "head": 3, "winner": 2, "author": "did:key:z",
    }),
]  # fmt: skip


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(("fact", "plain"), FACTS, ids=[str(number) for number in range(len(FACTS))])
def test_any_fact_becomes_a_json_value(fact: Any, plain: Any) -> None:
    assert problems.plain(fact) == plain
    for codec in CODECS:
        crossed(errors.Malformed("m", fact=fact), codec)


@pytest.mark.rule("WIRE-4")
def test_a_fact_that_holds_itself_ends_somewhere() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for codec in CODECS:
        crossed(errors.Malformed("\ud800", fact=endless), codec)


@pytest.mark.rule("WIRE-4")
def test_details_have_documented_keys_only_and_a_pointer_as_path() -> None:
    conflict = errors.Conflict(count=1, stale=(), planned=3, voided=4)
    assert problems.rejected(Local(1), conflict).details == {"count": 1}
    for place, told in (("reads/0", "/reads/0"), ("/offset", "/offset"), ("(message)", ""), ("byte 7", ""), ("", "")):
        assert problems.error_message(errors.Malformed(path=place, why="x")).details["path"] == told
    failed = errors.PatchFailed(patch_index=2, why="x", path="no pointer").of_operation(1, "urn:a")
    details = problems.rejected(Local(1), failed).details
    assert details == {"patch_index": 2, "why": "x", "index": 1, "id": "urn:a", "path": ""}
