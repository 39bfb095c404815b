"""Requests made from the OpenAPI document, good and bad ones: the server answers as the document says."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest
from jsonschema_rs import Draft202012Validator

from http_worlds import Answer, HttpPeer, HttpWorld, http_world
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server.http.description import openapi

DOCUMENT: Final[dict[str, Any]] = json.loads(openapi.encoded())
METHODS: Final = ("get", "put", "post", "patch", "delete")
CASES_EACH: Final = 12
HOSTILE: Final = (
    "",
    " ",
    "-1",
    "99999999999999999999",
    "x" * 3_000,
    "\u202e",
    "%00",
    "../..",
    "{}",
    "[]",
    "null",
    "true",
)
GOOD: Final[dict[str, tuple[str, ...]]] = {
    "id": ("urn:a:1", "urn:a:2", "urn:none"),
    "branch": ("main", "draft", "none"),
    "version": ("1", "2", "99"),
    "time": ("1", "2030-01-01T00:00:00Z"),
    "tag": ("v1", "none"),
    "name": ("v1", "draft", "fresh"),
    "path": ("", "/n", "/none"),
    "prefix": ("", "urn:a:"),
    "left": ("main@2", "main"),
    "right": ("main", "draft"),
    "select": ("urn:a:*", "urn:a:1"),
    "schema": ("{}", '{"required": ["n"]}'),
    "wait": ("0",),
    "If-Match": ('"2.aaaaaaaaaaaa"',),
    "If-None-Match": ("*",),
    "Idempotency-Key": ("k1", "k2"),
    "Range": ("bytes=0-1",),
}
BODIES: Final[dict[str, tuple[Any, ...]]] = {
    "application/json": (
        1,
        {"n": 1},
        {"operations": [{"op": "set", "id": "urn:a:3", "body": 1, "blind": True}]},
        {"roots": [{"id": "urn:a:*"}]},
        {"source": "draft", "dry_run": True},
        {"versions": [2], "dry_run": True},
        {},
        [],
        None,
    ),
    "application/json-patch+json": ([{"op": "increment", "path": "/n", "by": 1}], [{"op": "no"}], {}),
}


class Case(NamedTuple):
    """One request of an operation."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes | None


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        yield from ((path, method, item[method]) for method in METHODS if method in item)


@pytest.fixture(scope="module")
def problem() -> Draft202012Validator:
    return validator({"$ref": "#/components/schemas/Problem"})


def validator(schema: Any) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


@pytest.mark.rule("HTTP-12", "HTTP-13")
@pytest.mark.parametrize("seed", [1, 2])
async def test_every_answer_is_one_that_the_document_promises(
    tmp_path: Path, seed: int, problem: Draft202012Validator
) -> None:
    chance = random.Random(seed)
    async with http_world(tmp_path) as world:
        await world.put("urn:a:1", {"n": 1})
        await world.put("urn:a:2", {"n": 2})
        await world.space.branch("draft", create=True)
        await world.ask("POST", "/tag?name=v1", {"version": 2})
        blob = (await world.ask("POST", "/blobs", b"hello", Content_Type="text/plain")).json()["blob"]
        token = world.token_of(world.db.identity, space=None, expires=TimeMs(int(time.time() * 1_000) + 600_000))
        accepted = set()
        for path, method, operation in operations():
            for _ in range(CASES_EACH):
                case = made(chance, path, method, operation, world.did, blob)
                answer = await sent(world, case, token if "{space}" not in path else None)
                check(case, operation, answer, problem)
                if answer.status < 300:
                    accepted.add((path, method))
        assert len(accepted) >= 0.8 * len(list(operations())), "too few were good requests"


ORDER: Final = ("put", "post", "patch", "get", "delete")
FIRST: Final = ("/entity", "/blobs/{blob}", "/branch", "/tag")


def in_order() -> list[tuple[str, str, dict[str, Any]]]:
    """What makes something first, and what deletes it last."""

    def rank(one: tuple[str, str, Any]) -> tuple[bool, int, bool]:
        return one[1] == "delete", ORDER.index(one[1]), not one[0].endswith(FIRST)

    return sorted(operations(), key=rank)


@pytest.mark.rule("HTTP-5", "HTTP-13")
@pytest.mark.parametrize("is_second", [False, True])
async def test_every_example_of_the_document_is_a_good_request(
    tmp_path: Path, is_second: bool, problem: Draft202012Validator
) -> None:
    async with http_world(tmp_path) as world:
        token = world.token_of(world.db.identity, space=None, expires=TimeMs(int(time.time() * 1_000) + 600_000))
        kept = await world.peer()
        for path, method, operation in in_order():
            case = example(path, method, operation, world.did)
            asked = token if "{space}" not in path else None
            answer = await sent(world, case, asked, kept if is_second else None)
            assert answer.status < 300, (method, path, answer)
            check(case, operation, answer, problem)


def example(path: str, method: str, operation: Any, did: str) -> Case:
    """The request that the examples of an operation make, in the space that is there."""
    named = {one["name"]: one for one in operation.get("parameters", ())}
    missing = [name for name, one in named.items() if one["required"] and "example" not in one]
    assert missing == [], (path, method)
    query = [(n, one["example"]) for n, one in named.items() if one["in"] == "query" and "example" in one]
    target = path.replace("{space}", did)
    if "{blob}" in path:
        target = target.replace("{blob}", named["blob"]["example"])
    body, headers = None, {}
    if "requestBody" in operation:
        ((kind, content),) = operation["requestBody"]["content"].items()
        given = content["example"]
        body = given.encode() if kind == "application/octet-stream" else json.dumps(given).encode()
        headers["Content-Type"] = kind
    return Case(method.upper(), target, [(n, written(value)) for n, value in query], headers, body)


def written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def made(chance: random.Random, path: str, method: str, operation: Any, did: str, blob: str) -> Case:
    query, headers = [], {}
    is_good = chance.random() < 0.6
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "path" or not (parameter["required"] or chance.random() < 0.3):
            continue
        value = chance.choice(GOOD.get(name, ("1", "true", "asc")) if is_good else HOSTILE)
        if parameter["in"] == "query":
            query.append((name, "true" if parameter["schema"].get("type") == "boolean" and is_good else value))
        elif value.isascii() and value == value.strip() and len(value) < 1_000:
            headers[name] = value
    if "watch" in path:
        query = [one for one in query if one[0] != "wait"] + [("wait", "0")]
    if not is_good and chance.random() < 0.2:
        query.append(("unknown", "1"))
    if not any(name in headers for name in ("If-Match", "If-None-Match")) and path.endswith("/entity"):
        query += [("blind", "true")] * (method != "get" and ("blind", "true") not in query)
    body = None
    if "requestBody" in operation:
        kind = chance.choice(list(operation["requestBody"]["content"]))
        value = chance.choice(BODIES.get(kind, BODIES["application/json"]))
        body = json.dumps(value).encode() if is_good or chance.random() < 0.5 else b"{" * chance.randrange(1, 99)
        headers["Content-Type"] = kind
    target = path.replace("{space}", did).replace("{blob}", blob if is_good else "b3:none")
    return Case(method.upper(), target, query, headers, body)


async def sent(world: HttpWorld, case: Case, token: str | None, kept: HttpPeer | None = None) -> Answer:
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in case.query)
    headers = {name.replace("-", "_"): value for name, value in case.headers.items()}
    target = f"/{case.path}{'?' if query else ''}{query}"
    if kept is None:
        return await world.ask(case.method, target, case.body, token=token, **headers)
    kept.write(world.request(case.method, target, case.body, token=token, **headers))
    return await kept.answer()


def check(case: Case, operation: Any, answer: Answer, problem: Draft202012Validator) -> None:
    assert 200 <= answer.status < 500, (case, answer)
    said = operation["responses"].get(str(answer.status), operation["responses"].get("default"))
    assert said is not None, (case, answer)
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json", (case, answer)
        problem.validate(answer.json())
        return
    assert str(answer.status) in operation["responses"], (case, answer.status)
    if answer.status in (204, 304):
        assert answer.body == b""
        return
    kind = answer.headers["content-type"]
    content = said["content"]
    assert kind in content or "*/*" in content or kind.partition("/")[0] + "/*" in content, (case, kind, content)
    if kind == "application/json" and kind in content:
        validator(content[kind]["schema"]).validate(answer.json())
