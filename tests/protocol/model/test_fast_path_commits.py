"""Fast-path commits: what the fast path in C accepts, admission accepts too, byte for byte."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable

import pytest

from commit_paths import NOW, CommitPaths, batch_base_of
from space import BOB, MemorySpace, delete_, patch_, read_, set_
from stemmadb.protocol.model.commit import admission
from stemmadb.protocol.model.commit.admission import Outcome
from stemmadb.protocol.model.commit.batch_base import BatchBase
from stemmadb.protocol.model.commit.native import FastPath, native
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.state import empty_state
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, TimeMs
from stemmadb.protocol.model.values.limits import Limits

COMPILED = native()
needs_compiled = pytest.mark.skipif(COMPILED is None, reason="the compiled fast path was not built here")


def admitted(space: MemorySpace, batch: list[Proposal], salts: list[bytes], now: TimeMs = NOW) -> list[Outcome]:
    """As admission decides it; the space stays where it is."""
    return admission.decide(batch, space, now=now, salts=iter(salts), limits=space.limits)


@pytest.fixture
def fast_path() -> FastPath:
    assert COMPILED is not None
    return COMPILED


@pytest.mark.rule("COMMIT-2", "COMMIT-3", "COMMIT-5", "COMMIT-6", "FACT-2", "FACT-3")
@needs_compiled
@pytest.mark.parametrize("block", range(4))
def test_the_fast_path_accepts_what_admission_accepts(fast_path: FastPath, block: int) -> None:
    fast = other = 0
    for seed in range(block * 150, (block + 1) * 150):
        paths = CommitPaths(seed, fast_path)
        paths.run(steps=10)
        fast, other = fast + paths.fast, other + paths.other
    assert fast > 200, "a differential test proves little if it only ever sees refusal"
    assert other > 200


@pytest.mark.rule("COMMIT-7", "FACT-3")
@needs_compiled
def test_a_commit_with_a_note_and_many_facts_is_sealed_alike(fast_path: FastPath) -> None:
    space = MemorySpace()
    many = [set_("urn:a:1", {"number": number}, blind=True) for number in range(40)]
    batch = [
        space.propose(*many, note=encode({"message": "many"}), session="s1"),
        space.propose(delete_("urn:a:1", blind=True), set_("urn:b:1", "x" * 5_000, blind=True), session="s2"),
    ]
    salts = [number.to_bytes(16, "big") for number in range(60)]
    made = fast_path.decide(batch, batch_base_of(space), NOW, iter(salts), space.limits)
    assert made == admitted(space, batch, salts)


@pytest.mark.rule("COMMIT-7")
@needs_compiled
@pytest.mark.parametrize("now", [NOW - 1, NOW, NOW + 1])
def test_a_clock_that_goes_back_repeats_the_last_time_in_both_paths(fast_path: FastPath, now: int) -> None:
    space = MemorySpace()
    batch = [space.propose(set_("urn:a:1", name, blind=True), session=name) for name in ("s1", "s2")]
    salts = [b"%016d" % number for number in range(4)]
    space.time = NOW
    base = batch_base_of(space)
    made = fast_path.decide(batch, base, TimeMs(now), iter(salts), space.limits)
    assert made is not None
    assert made == admitted(space, batch, salts, TimeMs(now))
    assert [one.commit.time for one in made] == [max(now, NOW)] * 2
    assert base.time == max(now, NOW)


@pytest.mark.rule("FACT-2")
@pytest.mark.parametrize("size", [31, 32, 127, 128, 255, 256, 512])
@needs_compiled
def test_the_hash_of_a_fact_covers_an_id_of_any_length_alike(fast_path: FastPath, size: int) -> None:
    space, id_ = MemorySpace(), EntityId("urn:".ljust(size, "x"))
    batch = [space.propose(set_(id_, 1, blind=True), session="s1")]
    base = batch_base_of(space)
    base.heads[MAIN, id_] = empty_state(id_)
    made = fast_path.decide(batch, base, NOW, iter([b"s" * 16]), space.limits)
    assert made == admitted(space, batch, [b"s" * 16])


@pytest.mark.rule("COMMIT-2")
@needs_compiled
def test_changes_beyond_the_bound_are_forgotten_alike(fast_path: FastPath) -> None:
    space = MemorySpace(Limits(scan_facts_max=3))
    for number in range(12):
        added = patch_("urn:a:1", {"op": "add", "path": f"/{number}", "value": 0}, blind=True)
        batch = [space.propose(added if number else set_("urn:a:1", {}, blind=True), session="s1")]
        salts = [next(space.salts)]
        made = fast_path.decide(batch, batch_base_of(space), NOW, iter(salts), space.limits)
        assert made == admitted(space, batch, salts)
        space.salts = itertools.chain(salts, space.salts)
        space.decide(batch)


@pytest.mark.rule("ACL-1", "COMMIT-5")
@needs_compiled
def test_what_is_not_fast_path_is_left_to_admission(fast_path: FastPath) -> None:
    space = MemorySpace()
    space.must(set_("urn:a:1", {"p": 1}, blind=True), session="s1", local=5)
    stale = [read_("urn:a:1", 0)]
    for proposal in (
        space.propose(set_("urn:a:1", 1), reads=stale, session="s1", local=6),
        space.propose(set_("urn:a:1", 1, blind=True), session="s1", local=5),
        space.propose(set_(space.space, {}, blind=True), session="s1", local=6),
        space.propose(patch_("urn:a:2", {"op": "add", "path": "/x", "value": 1}, blind=True), session="s1", local=6),
        space.propose(delete_("urn:a:2", blind=True), session="s1", local=6),
        space.propose(set_("urn:a:1", 1), reads=[read_("urn:a:1", 9)], session="s1", local=6),
        space.propose(set_("urn:a:1", 1, blind=True), branch="other", session="s1", local=6),
    ):
        assert fast_path.decide([proposal], batch_base_of(space), NOW, space.salts, space.limits) is None, proposal
    reader = batch_base_of(space)
    roles = reader.heads[MAIN, EntityId(space.space)].value
    assert isinstance(roles, dict)
    roles[BOB] = "read"
    written = [space.propose(set_("urn:a:1", 1, blind=True), author=BOB, session="s1", local=1)]
    assert fast_path.decide(written, reader, NOW, space.salts, space.limits) is None


@pytest.mark.rule("COMMIT-6")
@needs_compiled
def test_an_internal_error_is_raised(fast_path: FastPath) -> None:
    space = MemorySpace()
    batch = [space.propose(set_("urn:c:9", 1, blind=True), session="s1")]
    with pytest.raises(KeyError, match="urn:c:9"):
        fast_path.decide(batch, batch_base_of(space), NOW, space.salts, space.limits)
    batch = [space.propose(set_("urn:a:1", 1, blind=True), session="s1")]
    with pytest.raises(RuntimeError, match="salts"):
        fast_path.decide(batch, batch_base_of(space), NOW, iter([]), space.limits)
    with pytest.raises(TypeError, match="decide"):
        fast_path.decide(batch)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="decide"):
        fast_path.decide(batch, batch_base_of(space), NOW, [b"s" * 16], space.limits)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="decide"):
        fast_path.decide(batch, object(), NOW, space.salts, space.limits)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="decide"):
        fast_path.decide(batch, batch_base_of(space), NOW, space.salts, None)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="Accepted"):
        fast_path.bind({})


@pytest.mark.rule("COMMIT-6")
@needs_compiled
@pytest.mark.parametrize("field", BatchBase.__struct_fields__)
def test_a_batch_base_that_lacks_a_field_is_refused(fast_path: FastPath, field: str) -> None:
    space = MemorySpace()
    base = batch_base_of(space)
    delattr(base, field)
    with pytest.raises(TypeError, match="decide"):
        fast_path.decide([], base, NOW, space.salts, space.limits)


@pytest.mark.rule("COMMIT-6")
@needs_compiled
def test_deciding_keeps_no_memory(fast_path: FastPath) -> None:
    """References are counted by hand there: one too many would stay for ever."""
    space = MemorySpace()
    space.must(set_("urn:a:1", {"p": [1, 2]}, blind=True), session="s1", local=1)

    def once(round_: int) -> None:
        batch = [
            space.propose(
                set_("urn:a:2", {"n": round_}, blind=True), delete_("urn:a:1"), reads=[read_("urn:a:1", 1)],
                session="s1", local=2, note=encode({"round": round_}),
            ),
            space.propose(patch_("urn:a:1", {"op": "add", "path": "/p/0", "value": 1}, blind=True), session="s2"),
            space.propose(set_("urn:b:1", 1, blind=True), session="s1", local=2),
        ]  # fmt: skip
        for count in (1, 2, 3):
            fast_path.decide(batch[:count], batch_base_of(space), NOW, space.salts, space.limits)

    assert _grown(once, rounds=3_000) < 3_000 * 30, "not even one small object for each round"


def _grown(once: Callable[[int], None], *, rounds: int) -> int:
    for round_ in range(50):
        once(round_)
    tracemalloc.start()
    try:
        for round_ in range(20):
            once(round_)
        before = tracemalloc.get_traced_memory()[0]
        for round_ in range(rounds):
            once(round_)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
