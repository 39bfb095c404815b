"""Answers that docs/spec settles for clients in any language, asked of a real server in both encodings."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from plain_bytes import digest, pack, reference, unpack
from plain_client import BINARY
from plain_content import patch_, set_
from plain_world import ServedSpace

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(
    ("path", "subprotocols", "origin", "status"),
    [
        ("/v1/spaces/{space}", None, None, 400),
        ("/v1/spaces/{space}", ["stemma.v2.msgpack"], None, 400),
        ("/v1/spaces/did:key:z6Mk", [BINARY], None, 400),
        ("/v2/spaces/{space}", [BINARY], None, 404),
        ("/v1/spaces/{space}", [BINARY], "https://evil.example", 403),
    ],
    ids=["no subprotocol", "another subprotocol", "no DID", "another path", "an origin not allowed"],
)
async def test_a_bad_upgrade_has_the_status_of_the_chapter(
    served_space: ServedSpace, path: str, subprotocols: list[Subprotocol] | None, origin: str | None, status: int
) -> None:
    address = served_space.address + path.format(space=served_space.space)
    with pytest.raises(InvalidStatus) as refused:
        await connect(address, subprotocols=subprotocols, origin=Origin(origin) if origin else None, proxy=None)
    assert refused.value.response.status_code == status


@pytest.mark.rule("WIRE-4", "COMMIT-6")
async def test_what_cannot_be_read_is_an_error_and_anything_after_that_a_verdict(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    nonce = secrets.token_bytes(16)
    await client.send({"type": "commit", "local": 1, "nonce": nonce, "content": pack({"reads": []})})
    await client.until(lambda: bool(client.errors))
    assert [client.errors[0][key] for key in ("local", "code")] == [1, "malformed"]
    assert client.errors[0]["details"]["path"] == "/content/operations"
    content = pack({"operations": [{"op": "set", "id": "urn:a:1", "blind": True}]})
    await client.send({"type": "commit", "local": 2, "nonce": nonce, "content": content})
    assert (await client.verdict(2))["code"] == "malformed"
    client.last_local = 2
    await client.write_now(set_("urn:a:1", {"n": 1}, blind=True))
    failing: list[dict[str, Any]] = [{"op": "increment", "path": "/n", "by": 1}, {"op": "remove", "path": "/no"}]
    for blind, code, path in ((True, "patch_failed", "/no"), (False, "undeclared", "/no")):
        local = await client.commit(set_("urn:a:2", 1, blind=True), patch_("urn:a:1", *failing, blind=blind))
        verdict = await client.verdict(local)
        assert (verdict["verdict"], verdict["code"]) == ("rejected", code)
        named = [verdict["details"][key] for key in ("index", "id", "patch_index", "path")]
        assert named == [1, "urn:a:1", 1, path]
    assert not client.errors[1:]


@pytest.mark.rule("BLOB-1", "WIRE-4")
async def test_a_blob_message_in_the_wrong_place_says_where_to_continue(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    data = secrets.token_bytes(20)
    blob = digest(data)
    assert (await client.refusal("blob.chunk", blob=blob, offset=0, data=data)).code == "unknown_blob"
    assert (await client.refusal("blob.end", blob=blob)).code == "unknown_blob"
    assert (await client.request("blob.begin", blob=blob, size=20))["offset"] == 0
    await client.request("blob.chunk", blob=blob, offset=0, data=data[:8])
    for refused, path in (
        (await client.refusal("blob.chunk", blob=blob, offset=0, data=data[:8]), "/offset"),
        (await client.refusal("blob.end", blob=blob), "/blob"),
    ):
        assert (refused.code, refused.details["path"], refused.details["offset"]) == ("malformed", path, 8)
    beyond = await client.refusal("blob.chunk", blob=blob, offset=8, data=data)
    assert beyond.code == "blob_mismatch"
    assert (await client.refusal("blob.begin", blob=blob, size=21)).code == "blob_mismatch"
    await client.request("blob.chunk", blob=blob, offset=8, data=data[8:])
    assert (await client.request("blob.end", blob=blob))["size"] == 20
    after = await client.refusal("blob.read", blob=blob, offset=21)
    assert (after.code, after.details["path"], after.details["size"]) == ("malformed", "/offset", 20)


@pytest.mark.rule("WIRE-1", "COMMIT-5")
async def test_a_json_commit_sent_again_with_its_defaults_written_out_is_the_same(served_space: ServedSpace) -> None:
    client = await served_space.enter(text=True)
    message = {
        "type": "commit", "local": 1, "nonce": "MDEyMzQ1Njc4OTo7PD0+Pw==",
        "content": {"operations": [{"op": "set", "id": "urn:a:1", "body": 1, "blind": True}]},
    }  # fmt: skip
    await client.send_raw(json.dumps(message))
    first = await client.verdict(1)
    again = {**message, "content": {"branch": "main", "reads": [], **message["content"]}}  # type: ignore[dict-item]
    frames = len(client.holding.frames)
    await client.send_raw(json.dumps(again))
    await client.until(lambda: len(client.holding.frames) > frames)
    [second] = client.holding.frames[-1]["verdicts"]
    assert (second["verdict"], second["version"], second["request"]) == (
        "accepted", first["version"], first["request"],
    )  # fmt: skip


@pytest.mark.rule("ACL-4", "FACT-3")
async def test_the_arguments_of_a_revocation_are_a_reference_of_its_encoding(
    served_space: ServedSpace, text: bool
) -> None:
    client = await served_space.enter(text=text)
    named = digest(b"a token")
    await client.write("revoke", delegation=named)
    (entry,) = (await client.request("log", limit=1))["entries"]
    held = unpack(entry["arguments"])
    assert held == {"kind": "revoke", "delegation": named}
    if text:
        await client.send_raw(json.dumps({"type": "log", "id": 900, "limit": 1}))
        assert client._socket is not None
        raw = json.loads(await client._socket.recv())
        assert raw["result"]["entries"][0]["arguments"]["delegation"] == reference(named)
    await client.verified()


@pytest.mark.rule("QUERY-5", "ERASE-1")
async def test_an_erased_state_is_told_from_a_missing_one(served_space: ServedSpace, text: bool) -> None:
    client = await served_space.enter(text=text)
    version = (await client.write_now(set_("urn:a:1", "secret", blind=True)))["version"]
    await client.write("erase", entity="urn:a:1", versions=[version])
    for root in ("urn:a:1", "urn:a:*"):
        answer = await client.request("query", query={"roots": [{"id": root}], "version": version})
        assert answer["erased"] == ["urn:a:1"]
    missing = await client.request("query", query={"roots": [{"id": "urn:a:2"}], "version": version})
    assert "erased" not in missing
    assert missing["unresolved"] == [{"id": "urn:a:2"}]
