"""The closed list of errors: one class for a code, facts that survive the way, and sentences for people."""

from __future__ import annotations

import ast
import inspect
import pathlib
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
def test_to_raise_an_error_without_its_facts_is_an_internal_error() -> None:
    with pytest.raises(AssertionError, match="InvalidId was raised without the fact"):
        errors.InvalidId(id="x")


ROOTS = [pathlib.Path(__file__).parents[2] / root for root in ("protocol", "server")]
NEVER_SENT = {("conflict", "planned"), ("conflict", "voided"), ("conflict", "merged")}
"""Facts that the server's own retries read."""


def raised() -> set[tuple[str, str]]:
    """The code and the name of each fact that the protocol or the server gives to an error."""
    classes = {cls.__name__: cls.code for cls in CLASSES}
    calls = [
        call
        for root in ROOTS
        for path in root.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
    ]
    named = [(classes.get(getattr(call.func, "attr", getattr(call.func, "id", ""))), call) for call in calls]
    return {(code, fact.arg) for code, call in named if code for fact in call.keywords if fact.arg}


@pytest.mark.rule("WIRE-4")
def test_every_fact_that_is_raised_is_a_documented_key_and_the_other_way_round() -> None:
    documented = {(cls.code, key) for cls in CLASSES for key in cls.detail_keys()}
    assert raised() - documented == NEVER_SENT
    of_clients = {cls.code for cls in CLASSES} - {code for code, _ in raised()}
    added_by_commits = {("patch_failed", "index"), ("patch_failed", "id"), ("undeclared", "patch_index")}
    unused = {(code, key) for code, key in documented - raised() if code not in of_clients}
    assert unused == added_by_commits


@pytest.mark.rule("COMMIT-10")
def test_only_what_is_no_verdict_can_be_retried() -> None:
    assert {cls.code for cls in CLASSES if cls.retriable} == {cls.code for cls in CLASSES if issubclass(cls, Unready)}
