"""The kept corpus and what once found a bug run through their targets, with a seeded run of changed inputs."""

from __future__ import annotations

import pytest

from fuzzing import corpus
from fuzzing.mutating import mutated
from fuzzing.targets import TARGETS

SEED = "every change"
CORPUS_BYTES_MAX = 1_000_000
PARTS = 4
"""Of the run of each target, so that workers share it."""

KEPT = [(name, file.name) for name in TARGETS for file in corpus.files(corpus.CORPUS, name)]


def begin_with(target: str) -> list[bytes]:
    """Good inputs too: what the corpus keeps is short, and a decoder in C shows no coverage."""
    return [*TARGETS[target].seeds(), *corpus.read(corpus.CORPUS, target)]


@pytest.mark.rule("WIRE-4", "MODEL-3")
@pytest.mark.parametrize("target", TARGETS)
def test_every_input_of_the_corpus_gives_nothing_but_typed_errors(target: str) -> None:
    for file in corpus.files(corpus.CORPUS, target):
        TARGETS[target].run(file.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_what_once_found_a_bug_finds_none_now(target: str) -> None:
    for file in corpus.files(corpus.FOUND, target):
        TARGETS[target].run(file.read_bytes())


@pytest.mark.rule("WIRE-4", "MODEL-3")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", TARGETS)
def test_changed_inputs_give_nothing_but_typed_errors(target: str, part: int) -> None:
    run = TARGETS[target].run
    for data in mutated(begin_with(target), f"{SEED} {target} {part}", TARGETS[target].quick_runs // PARTS):
        try:
            run(data)
        except Exception as error:
            raise AssertionError(f"keep it: tests/fuzzing/found/{target}/, bytes.fromhex({data.hex()!r})") from error


def test_the_corpus_is_small_named_by_its_hashes_and_has_something_for_each_target() -> None:
    assert {name for name, _ in KEPT} == set(TARGETS)
    sizes = 0
    for target, name in KEPT:
        data = (corpus.CORPUS / target / name).read_bytes()
        assert corpus.name_of(data) == name
        sizes += len(data)
    assert sizes < CORPUS_BYTES_MAX


@pytest.mark.parametrize("target", TARGETS)
def test_a_seed_gives_the_same_inputs_each_time_and_another_seed_others(target: str) -> None:
    one, again, other = (list(mutated(begin_with(target), seed, 20)) for seed in ("one", "one", "two"))
    assert one == again
    assert one != other


def test_minimising_keeps_the_shortest_inputs_that_reach_the_same() -> None:
    run = TARGETS["bodies"].run
    assert corpus.minimised(run, [b"\xc0", b"\xc3", b"\xc0"]) == [b"\xc0"]
    assert corpus.minimised(run, [b"\xc0", b"\xc1"]) == [b"\xc0", b"\xc1"]
