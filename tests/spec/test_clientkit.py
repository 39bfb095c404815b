"""What is made from the Python code for authors of clients is what it would become now (WIRE-5, WIRE-6)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from scripts.clientkit import made, readme

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return made.files()


@pytest.mark.rule("WIRE-5", "WIRE-6")
def test_every_made_file_is_current(files: dict[str, str]) -> None:
    outdated = [file for file, text in files.items() if (ROOT / file).read_text() != text]
    assert outdated == [], "run `make web-made`"


@pytest.mark.rule("WIRE-6")
def test_the_message_schema_has_every_message_of_the_vectors(files: dict[str, str]) -> None:
    schema = json.loads(files["docs/spec/messages.schema.json"])
    known = schema["clientMessages"].keys() | schema["serverMessages"].keys()
    cases = json.loads((ROOT / "tests/vectors/messages.json").read_text())["cases"]
    assert {case["type"] for case in cases} <= known


@pytest.mark.rule("WIRE-6")
def test_every_message_of_the_vectors_matches_the_schema(files: dict[str, str]) -> None:
    jsonschema = pytest.importorskip("jsonschema_rs")
    schema = json.loads(files["docs/spec/messages.schema.json"])
    cases = json.loads((ROOT / "tests/vectors/messages.json").read_text())["cases"]
    for case in cases:
        ways = schema["clientMessages"] | schema["serverMessages"]
        validator = jsonschema.Draft202012Validator(
            {**ways[case["type"]], "$defs": _without_lengths(schema["$defs"])}
        )
        assert validator.is_valid(case["json"]), (
            case["title"],
            [error.message for error in validator.iter_errors(case["json"])],
        )
        assert not validator.is_valid({**case["json"], "unheard_of": 1}), case["title"]


def test_a_rule_that_the_typescript_client_does_not_hold_exists_and_is_cited_by_none_of_its_tests() -> None:
    missing = [*readme.LATER, *readme.NOT_PORTED]
    assert len(set(missing)) == len(missing)
    spec = "".join(page.read_text() for page in (ROOT / "docs/spec").glob("*.md"))
    assert [rule for rule in missing if f"**{rule}**" not in spec] == []
    assert [rule for rule in missing if rule in readme.cited()] == [], "it holds now: take it out of the list"


def _without_lengths(node: object) -> object:
    """Lengths beside base64 count bytes, which a validator of texts does not know."""
    if isinstance(node, dict):
        is_bytes = "contentEncoding" in node
        return {k: _without_lengths(v) for k, v in node.items() if not (is_bytes and k in ("minLength", "maxLength"))}
    return [_without_lengths(item) for item in node] if isinstance(node, list) else node


def test_the_lock_of_npm_has_hashes_and_no_addresses() -> None:
    lock = json.loads((ROOT / "typescript/package-lock.json").read_text())
    text = (ROOT / "typescript/package-lock.json").read_text()
    assert "://" not in text
    assert "funding" not in text
    packages = {
        name: one
        for name, one in lock["packages"].items()
        if name.startswith("node_modules/") and not one.get("link")
    }
    assert len(packages) > 10
    assert [name for name, one in packages.items() if not re.match(r"sha512-", one.get("integrity", ""))] == []
