"""Two spaces that differ only in what a narrow token may not read give it the same answers over HTTP (ACL-2)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from blake3 import blake3

from graphs import link
from http_worlds import Answer, http_world
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash

HIDDEN: Final = "urn:b:1"
WALK: Final = {"properties": {"next": {"$ref": "#"}}}
WALK_TEXT: Final = quote(json.dumps(WALK))
SECRET_BLOB: Final = b"the bytes of a secret"
BLOB: Final = reference.write(Hash(blake3(SECRET_BLOB).digest()))
"""Only the hidden entity of the first space refers to it; the second space has no such blob."""
WRITE: Final = {"op": "set", "id": "urn:a:9", "body": 1}
QUESTIONS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("GET", "", None),
    ("GET", "/acl", None),
    ("GET", "/entities", None),
    ("GET", f"/entities?prefix={HIDDEN}", None),
    ("GET", "/entities/count", None),
    ("GET", "/entities/prefixes", None),
    ("GET", f"/entity?id={HIDDEN}", None),
    ("GET", f"/entity?id={HIDDEN}&version=3", None),
    ("GET", "/entity?id=urn:a:1&version=4", None),
    ("GET", f"/entity/history?id={HIDDEN}", None),
    ("GET", f"/entity/blame?id={HIDDEN}", None),
    ("GET", "/entity/history?id=urn:a:1", None),
    ("GET", "/log?with_facts=true", None),
    ("GET", f"/log?prefix={HIDDEN}", None),
    ("GET", "/log/histogram?by=version", None),
    ("GET", "/diff?left=main@2&right=main", None),
    ("GET", "/branches", None),
    ("GET", "/tags", None),
    ("GET", f"/watch?select={HIDDEN}&wait=0", None),
    ("GET", "/watch?select=*&wait=0", None),
    ("POST", "/query", {"roots": [{"id": "urn:a:1", "schema": WALK}]}),
    ("POST", "/query?nested=true", {"roots": [{"id": "*"}]}),
    ("POST", "/merges", {"source": "main", "dry_run": True}),
    ("POST", "/reverts", {"versions": [3], "dry_run": True}),
    ("GET", f"/entities?prefix={HIDDEN}&shape=preview", None),
    ("GET", "/entities?shape=ids", None),
    ("GET", f"/watch?select=urn:a:1&schema={WALK_TEXT}&wait=0", None),
    ("GET", "/log?with_ids=true&kinds=commit", None),
    ("HEAD", f"/entity?id={HIDDEN}", None),
    ("POST", "/query", {"roots": [{"id": "urn:a:1", "schema": WALK}], "version": 3}),
    ("POST", "/query?nested=true", {"roots": [{"id": "urn:a:1", "schema": WALK}]}),
    ("GET", f"/blobs/{BLOB}", None),
    ("HEAD", f"/blobs/{BLOB}", None),
    ("PUT", f"/entity?id={HIDDEN}&blind=true", 1),
    ("DELETE", f"/entity?id={HIDDEN}&blind=true", None),
    ("POST", "/commits", {"operations": [WRITE], "reads": [{"id": HIDDEN, "version": 3}]}),
)  # fmt: skip
_OWN: Final = re.compile(r"did:key:\w+|b3:[a-z2-7]+|\.[a-z2-7]{12}\b|\d{13}|[A-Za-z0-9+/]{22}==")


@pytest.mark.rule("ACL-2", "HTTP-6")
async def test_what_may_not_be_read_changes_no_answer(tmp_path: Path) -> None:
    async with http_world(tmp_path) as world:
        twins = (world.did, (await world.db.space("twin")).did)
        for did, hidden in zip(twins, ({"secret": BLOB}, {"another": ["of", "many"]}), strict=True):
            for key, id_, value in (
                ("first", "urn:a:1", {"n": 1, "next": link(HIDDEN)}),
                ("second", HIDDEN, hidden),
                ("third", "urn:a:1", {"n": 2, "next": link(HIDDEN)}),
            ):
                token = world.token_of(world.db.identity, space=did)
                done = await world.ask(
                    "PUT", f"//v1/spaces/{did}/entity?id={id_}&blind=true", value, token=token, Idempotency_Key=key
                )
                assert done.status == 200
        assert (await world.ask("POST", "/blobs", SECRET_BLOB)).json()["blob"] == BLOB
        for method, path, body in QUESTIONS:
            answers = []
            for did in twins:
                token = world.token_of(world.db.identity, space=did, prefixes=("urn:a:",))
                answers.append(await world.ask(method, f"//v1/spaces/{did}{path}", body, token=token))
            assert shown(answers[0]) == shown(answers[1]), (method, path)
            assert b"secret" not in answers[0].body, (method, path)


def shown(answer: Answer) -> tuple[int, str, list[str]]:
    """The answer without what is random in each space: DIDs, hashes, salts, times, and the date."""
    try:
        text = json.dumps(answer.json(), sort_keys=True)
    except ValueError:
        text = answer.body.decode()
    headers = [f"{name}: {value}" for name, value in sorted(answer.headers.items()) if name != "date"]
    return answer.status, _OWN.sub("_", text), [_OWN.sub("_", one) for one in headers]
