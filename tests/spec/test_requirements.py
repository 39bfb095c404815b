"""Tests that need a program: skipped without it, and failed where it is required."""

from __future__ import annotations

import pytest

import requirements
from requirements import VARIABLE, missing, need


@pytest.fixture
def _without_jq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "FINDERS", {**requirements.FINDERS, "jq": lambda: False})


@pytest.mark.usefixtures("_without_jq")
@pytest.mark.parametrize("others", ["", "node", "node,browser"])
def test_without_the_program_a_test_is_skipped(others: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, others)
    with pytest.raises(pytest.skip.Exception, match="jq is missing: the example pipes into it"):
        need("jq", "the example pipes into it")


@pytest.mark.usefixtures("_without_jq")
@pytest.mark.parametrize("names", ["jq", "node,jq", " node , jq "])
def test_where_it_is_required_the_skip_is_a_failure(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, names)
    with pytest.raises(pytest.fail.Exception, match="jq is missing and STEMMADB_REQUIRE requires it: the example"):
        need("jq", "the example pipes into it")


def test_with_the_program_the_test_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "FINDERS", {"jq": lambda: True})
    monkeypatch.setenv(VARIABLE, "jq")
    need("jq", "the example pipes into it")


def test_a_name_that_does_not_exist_is_an_error_and_requires_nothing_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "node,jqq")
    with pytest.raises(pytest.UsageError, match="can require node, browser, postgres, jq, not jqq"):
        requirements.required()


def test_a_test_asks_only_for_programs_that_can_be_required() -> None:
    with pytest.raises(AssertionError, match="etcd is not one of"):
        missing("etcd", "there is no finder for it")
