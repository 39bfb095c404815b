"""The closed list of errors: one class for a code, facts that survive the way, and sentences for people."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from stemmadb.protocol import errors
from stemmadb.protocol.errors import BY_CODE, BadInput, Rejected, StemmaError, Unready

CLASSES = sorted(BY_CODE.values(), key=lambda cls: cls.code)
ABSTRACT = {StemmaError, BadInput, Rejected, Unready}


def example(cls: type[StemmaError]) -> StemmaError:
    names = re.findall(r"{(\w+)", cls.says)
    return cls(**dict.fromkeys(names, "x"))


@pytest.mark.rule("WIRE-4")
def test_every_class_is_abstract_or_has_a_code_of_its_own() -> None:
    declared = {cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, StemmaError)}
    assert declared - ABSTRACT == set(CLASSES)
    assert len(BY_CODE) == len(CLASSES)
    assert all("code" in vars(cls) and "says" in vars(cls) for cls in CLASSES)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.code)
def test_an_error_is_the_same_class_again_on_the_other_side(cls: type[StemmaError]) -> None:
    error = example(cls)
    for copy in (errors.restore(error.code, error.message, error.facts), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert type(copy) is cls
        assert (copy.message, copy.facts, copy.retriable) == (error.message, error.facts, cls.retriable)


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.code)
def test_a_message_is_a_sentence_that_says_what_to_do_or_what_was_wrong(cls: type[StemmaError]) -> None:
    message = str(example(cls))
    assert message[0].isupper() or message[0] in "'x\""
    assert message.endswith(".")
    assert "{" not in message
    assert re.fullmatch("[a-z_]+", cls.code)


@pytest.mark.rule("WIRE-4")
def test_a_code_from_a_newer_peer_stays_readable() -> None:
    error = errors.restore("brand_new", "Something new happened.", {"a": 1})
    assert isinstance(error, errors.Internal)
    assert (error.message, error.facts) == ("Something new happened.", {"a": 1})


@pytest.mark.rule("WIRE-4")
def test_to_raise_an_error_without_its_facts_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="InvalidId was raised without the fact"):
        errors.InvalidId(id="x")


@pytest.mark.rule("COMMIT-10")
def test_only_what_is_no_verdict_can_be_retried() -> None:
    assert {cls.code for cls in CLASSES if cls.retriable} == {cls.code for cls in CLASSES if issubclass(cls, Unready)}
