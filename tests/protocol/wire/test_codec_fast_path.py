"""On the wire: what the compiled fast path reads and tells is what the codec reads and tells (WIRE-6)."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from json_values import values
from schedules import Schedule
from space import ALICE, MemorySpace, delete_, patch_, read_, session_of, set_
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.native import native
from stemmadb.protocol.model.commit.proposal import Proposal, prepare
from stemmadb.protocol.model.commit.request import Content, Operation, Read, digest_request
from stemmadb.protocol.model.log.commit_record import Commit, LocalIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.codec.fast_path import FastPathCommits, Own, fast_path_commits, verdict_on
from stemmadb.protocol.wire.codec.msgpack_codec import MsgpackCodec, encode_content, read_content
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.sync import Sync

pytestmark = pytest.mark.skipif(native() is None, reason="the compiled fast path was not built here")
SESSION = session_of("s1")


def fast_path(limits: Limits = DEFAULTS) -> FastPathCommits:
    found = fast_path_commits(ALICE, SESSION, limits)
    assert found is not None
    return found


def by_the_codec(data: bytes, limits: Limits = DEFAULTS) -> Proposal | None:
    """What the modules in Python make of a commit; None if it is none, or is refused."""
    try:
        message = MsgpackCodec(limits).read_client(data)
        if not isinstance(message, CommitMessage):
            return None
        content = read_content(message.content, limits)
        identity = LocalIdentity(ALICE, message.session or SESSION, message.local)
        return prepare(identity, digest_request(message.nonce, message.content), content, limits)
    except StemmaError:
        return None


def message(*operations: Operation, local: int = 7, session: bytes | None = None, **more: Any) -> bytes:
    content = encode_content(Content(operations=operations, **more))
    commit = CommitMessage(local=Local(local), nonce=b"n" * 16, content=content, session=session)
    data = MsgpackCodec().encode(commit)
    assert isinstance(data, bytes)
    return data


def own_of(told: tuple[Commit, tuple[Fact, ...]]) -> Own:
    commit, facts = told
    return commit, records.salts_of(facts)


def around(body: bytes) -> bytes:
    """A message that sets an entity to this body, whatever it is."""
    return message(Operation(op="set", id=EntityId("urn:a:1"), body=body, blind=True))


PLAIN = [
    message(set_("urn:a:1", {"a": 1}, blind=True)),
    message(set_("urn:a:1", None), reads=(read_("urn:a:1", 3),)),
    message(delete_("urn:a:1"), reads=(read_("urn:a:1", 2**63 - 1),)),
    message(delete_("urn:a:1", blind=True), local=2**63 - 1),
    message(patch_("urn:a:1", {"op": "replace", "path": "/a/b", "value": 1}), reads=(read_("urn:a:1", 3, "/a"),)),
    message(patch_("urn:a:1", {"op": "increment", "path": "/a", "by": 1})),
    message(set_("urn:a:1", 1, blind=True), patch_("urn:a:1", {"op": "add", "path": "/x~0~1", "value": 1})),
    message(*[set_(f"urn:a:{n}", n, blind=True) for n in range(40)], reads=(read_("x-y.z+1:_", 0, "/"),)),
]
NOT_PLAIN = [
    message(set_("urn:a:1", 1, blind=True), branch="draft"),
    message(set_("urn:a:1", 1, blind=True), note=encode({"message": "why"})),
    message(set_("urn:a:1", 1, blind=True), session=b"o" * 16),
    message(set_("urn:a:1", 1), reads=(Read(version=Version(3), prefix="urn:"),)),
    message(set_("urn:a:1", 1, blind=True), reads=(read_("urn:a:1", 3, through=[1]),)),
    message(set_("urn:a:1", 1, blind=True), reads=(read_("urn:a:1", 3, branch="main"),)),
    message(set_("urn:\u00e4:1", 1, blind=True)),
    message(set_("urn:a:1", 1)),
    message(set_("urn:a:1", 1), reads=(read_("urn:a:2", 3),)),
    message(set_("urn:a:1", 1), reads=(read_("urn:a:1", 3, "/a"),)),
    message(patch_("urn:a:1", {"op": "add", "path": "/ab", "value": 1}), reads=(read_("urn:a:1", 3, "/a"),)),
    message(patch_("urn:a:1", {"op": "unknown"}, blind=True)),
    message(set_("no-uri", 1, blind=True)),
    message(set_("urn:", 1, blind=True)),
    message(set_("urn:a b", 1, blind=True)),
    message(set_("urn:a:1", 1, blind=True), reads=(read_("urn:a:1", 3, "/~2"),)),
    message(set_("urn:a:1", 1, blind=True), reads=(read_("urn:a:1", 3, "a"),)),
    message(),
    message(set_("urn:a:1", 1, blind=True), local=5).replace(b"\xa5local\x05", b"\xa5local\x00"),
    message(set_("urn:a:1", 1, blind=True), local=5).replace(b"\xa5local\x05", b"\xa5local\xff"),
]


@pytest.mark.rule("MODEL-4", "COMMIT-3", "COMMIT-5")
@pytest.mark.parametrize("data", PLAIN, ids=range(len(PLAIN)))
def test_a_plain_commit_is_read_as_the_codec_reads_it(data: bytes) -> None:
    proposal = fast_path().read(data)
    assert proposal is not None
    assert proposal == by_the_codec(data)


@pytest.mark.rule("COMMIT-3")
@pytest.mark.parametrize("data", NOT_PLAIN, ids=range(len(NOT_PLAIN)))
def test_what_is_not_plain_or_not_right_is_left_to_the_codec(data: bytes) -> None:
    assert fast_path().read(data) is None


@pytest.mark.rule("MODEL-3", "WIRE-4")
@pytest.mark.parametrize("block", range(4))
def test_any_bytes_are_read_as_the_codec_reads_them_or_left_to_it(block: int) -> None:
    """One byte changed, cut off, doubled or put in, thousands of times."""
    chance, taken = random.Random(block), 0
    for _ in range(6_000):
        data = bytearray(chance.choice(PLAIN + NOT_PLAIN))
        for _ in range(chance.choice([1, 1, 2, 3])):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place:]
                    data = data or bytearray(b"\x80")
                case 2:
                    data.insert(place, chance.choice([0x00, 0x80, 0xA0, 0xC0, 0xCC, 0xD9, 0xFF]))
                case _:
                    data[place] ^= 1 << chance.randrange(8)
        found = fast_path().read(bytes(data))
        if found is not None:
            taken += 1
            assert found == by_the_codec(bytes(data)), bytes(data).hex()
    assert taken > 40, "most bytes of a body can be others"


@pytest.mark.rule("MODEL-3", "MODEL-4")
@given(value=values)
@settings(derandomize=True, deadline=None, max_examples=400)
def test_any_value_is_read_as_the_codec_reads_it(value: Any) -> None:
    data = around(encode(value))
    expected, found = by_the_codec(data), fast_path().read(data)
    if found is not None:
        assert expected is not None
        assert found == expected
        assert encode(found.steps[0].payload) == found.steps[0].body, "1 and 1.0 are equal, and not the same"


@pytest.mark.rule("MODEL-3")
@given(body=st.binary(min_size=1, max_size=12))
@settings(derandomize=True, deadline=None, max_examples=3_000)
def test_any_body_is_taken_by_both_or_left_to_the_codec(body: bytes) -> None:
    data = around(body)
    found = fast_path().read(data)
    assert found is None or found == by_the_codec(data)


EDGES = [0, 1, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1]
EDGES += [-1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63)]


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    "value",
    [
        *EDGES,
        *(0.0, -0.5, 1e308, True, False, None, "", "\u00e4", "\U0001f600"),
        *("x" * size for size in (31, 32, 255, 256, 60_000)),
        *([0] * size for size in (0, 15, 16, 300)),
        *({str(n): n for n in range(size)} for size in (0, 15, 16, 300)),
        [[[[[[1]]]]]],
    ],
    ids=lambda value: repr(value)[:20],
)
def test_every_form_of_a_value_is_plain(value: Any) -> None:
    found = fast_path().read(around(encode(value)))
    assert found is not None
    assert repr(found.steps[0].payload) == repr(value)


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize(
    "body",
    [
        *("cc7f", "cd00ff", "ce0000ffff", "cf00000000ffffffff", "cfffffffffffffffff"),
        *("d0e0", "d0df00", "d1ff80", "d2ffff8000", "d3ffffffff80000000"),
        *("ca3f800000", "cb7ff0000000000000", "cb7ff8000000000000", "d90161", "da000161", "dc000101"),
        *("de0001a16101", "82a16101a16102", "81016101", "c40161", "c1", "a1ff", "a3eda080", "91919191919191c0"),
        *("9100ff00", "d40100", "a2c3", "93", "dd00000001c0", "dfffffffff", "ddffffffff", "c0c0"),
    ],
)
def test_another_form_than_the_shortest_or_no_json_is_left_to_the_codec(body: str) -> None:
    assert fast_path().read(around(bytes.fromhex(body))) is None


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize(
    ("limits", "data"),
    [
        (Limits(id_bytes_max=7), message(set_("urn:a:1", 1, blind=True))),
        (Limits(operations_max=2), message(*[set_("urn:a:1", 1, blind=True)] * 2)),
        (Limits(reads_max=2), message(set_("urn:a:1", 1, blind=True), reads=(read_("urn:a:1", 1),) * 2)),
        (Limits(value_bytes_max=3), message(set_("urn:a:1", "ab", blind=True))),
        (Limits(depth_max=6), message(set_("urn:a:1", 1, blind=True), reads=(read_("urn:a:1", 1, "/a" * 7),))),
    ],
    ids=["id", "operations", "reads", "value", "depth"],
)
def test_a_bound_holds_at_its_edge(limits: Limits, data: bytes) -> None:
    assert fast_path(limits).read(data) is not None
    tighter = {
        name: getattr(limits, name) - 1
        for name in ("id_bytes_max", "operations_max", "reads_max", "value_bytes_max", "depth_max")
        if getattr(limits, name) != getattr(DEFAULTS, name)
    }
    assert fast_path(Limits(**tighter)).read(data) is None
    assert by_the_codec(data, Limits(**tighter)) is None or "depth_max" in tighter


def test_what_is_too_large_for_a_light_message_is_left_to_the_codec() -> None:
    data = message(set_("urn:a:1", "x" * 70_000, blind=True))
    assert fast_path().read(data) is None
    assert fast_path(Limits(schema_bytes_max=100)).read(PLAIN[0] + b"x" * 100) is None
    assert fast_path().read("text") is None


@pytest.mark.rule("SYNC-2", "MODEL-4")
def test_a_frame_of_verdicts_is_encoded_as_the_codec_encodes_it() -> None:
    told = 0
    for seed in range(40):
        schedule = Schedule(seed)
        schedule.run(steps=6)
        own = [own_of(one) for one in schedule.space.history if isinstance(one[0].identity, LocalIdentity)]
        for count in (1, 2, 17):
            some = own[-count:]
            if some:
                told += 1
                from_, to, hash_ = Version(some[0][0].version - 1), some[-1][0].version, some[-1][0].hash
                verdicts = tuple(verdict_on(one) for one in some)
                expected = MsgpackCodec().encode(Sync(from_=from_, to=to, hash=hash_, verdicts=verdicts))
                assert fast_path().frame(from_, to, hash_, some) == expected
    assert told > 60


def test_a_frame_of_a_commit_of_a_thousand_facts_is_encoded_alike() -> None:
    space = MemorySpace()
    space.must(*[set_("urn:a:1", 1, blind=True)] * 1_000)
    own = own_of(space.history[0])
    frame = Sync(from_=Version(0), to=Version(70_000), hash=Hash(bytes(32)), verdicts=(verdict_on(own),))
    assert fast_path().frame(Version(0), Version(70_000), Hash(bytes(32)), [own]) == MsgpackCodec().encode(frame)


def test_a_frame_of_anything_else_is_an_internal_error() -> None:
    with pytest.raises(TypeError, match="frame"):
        fast_path().frame(Version(0), Version(1), Hash(bytes(32)), [("commit", ())])  # type: ignore[list-item]
    with pytest.raises((OverflowError, TypeError)):
        fast_path().frame(Version(-1), Version(1), Hash(bytes(32)), [])


def test_reading_and_telling_keep_no_memory() -> None:
    """References are counted by hand there: one too many would stay for ever."""
    space = MemorySpace()
    space.must(set_("urn:a:1", 1, blind=True))
    commits, own = fast_path(), own_of(space.history[0])

    def once() -> None:
        for data in PLAIN + NOT_PLAIN:
            commits.read(data)
        commits.frame(Version(0), Version(300), space.hash, [own] * 20)

    for _ in range(30):
        once()
    tracemalloc.start()
    try:
        for _ in range(10):
            once()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(400):
            once()
        assert tracemalloc.get_traced_memory()[0] - before < 400 * 64, "not even one small object for each round"
    finally:
        tracemalloc.stop()
