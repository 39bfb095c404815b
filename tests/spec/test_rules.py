"""Every rule of docs/spec has a test, and every test cites rules that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
RULE = re.compile(r"\*\*([A-Z]+-\d+)\*\*( \*\(planned\)\*)?")
CITATION = re.compile(r"\brule\(([^)]*)\)")


@cache
def defined() -> dict[str, bool]:
    """Each rule of the spec, and whether it is planned; a rule is defined in one place only."""
    rules: dict[str, bool] = {}
    for page in sorted(SPEC.glob("*.md")):
        for rule, planned in RULE.findall(page.read_text()):
            assert rule not in rules, f"{rule} is defined twice, the second time in {page.name}"
            rules[rule] = bool(planned)
    return rules


@cache
def cited() -> dict[str, set[str]]:
    """Each rule that a test file cites, whichever tests this run has selected; also in the tests of typescript/."""
    rules: dict[str, set[str]] = {}
    for file in (*sorted((ROOT / "tests").rglob("test_*.py")), *typescript_tests()):
        for arguments in CITATION.findall(file.read_text()):
            for rule in re.findall(r'"([A-Z]+-\d+)"', arguments):
                rules.setdefault(rule, set()).add(file.name)
    return rules


def typescript_tests() -> list[Path]:
    files = (ROOT / "typescript").rglob("*.test.ts")
    return sorted(file for file in files if "node_modules" not in file.parts)


def test_every_rule_that_is_not_planned_is_cited_by_a_test() -> None:
    untested = sorted(rule for rule, planned in defined().items() if not planned and rule not in cited())
    assert not untested, f"rules without a test: {untested}"


def test_every_citation_names_a_rule_of_the_spec() -> None:
    unknown = {rule: files for rule, files in cited().items() if rule not in defined()}
    assert not unknown, f"tests cite rules that docs/spec does not define: {unknown}"


def test_every_planned_rule_says_what_it_will_be() -> None:
    text = "\n".join(page.read_text() for page in SPEC.glob("*.md"))
    for rule, planned in defined().items():
        if planned:
            sentence = text.split(f"**{rule}** *(planned)*", 1)[1].split("\n", 1)[0]
            assert len(sentence) > 20, f"{rule} is planned but not described"


def test_every_test_of_the_protocol_cites_a_rule(request: pytest.FixtureRequest) -> None:
    bare = [
        item.nodeid
        for item in request.session.items
        if "tests/protocol/model" in item.nodeid and item.get_closest_marker("rule") is None
    ]
    assert not bare, f"tests that cite no rule: {bare}"
