"""The client that was written from the specification computes what the golden vectors say."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import plain_chain
import plain_client
import plain_patch
from plain_bytes import (
    Key,
    NoIdentity,
    body_digest,
    did_of,
    digest,
    empty_hash,
    fact_hash,
    hash_of,
    opening_payload,
    pack,
    public_key_of,
    reference,
    request_digest,
    space_hash,
    unpack,
)
from plain_delegation import sealed
from plain_holding import Holding
from plain_text import from_text, to_text

VECTORS = Path(__file__).parents[1] / "vectors"
ALLOWED = {"websockets", "msgpack", "blake3", "cryptography"}


def vectors(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return read


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = vectors(name)["cases"]
    return found


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.rule("WIRE-6")
def test_the_client_imports_nothing_of_stemmadb() -> None:
    for file in sorted(Path(plain_client.__file__).parent.glob("plain_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names]
                )
                for top in (name.split(".")[0] for name in names):
                    assert top in ALLOWED | sys.stdlib_module_names or top.startswith("plain_"), f"{file.name}: {top}"


@pytest.mark.rule("FACT-2", "FACT-4", "COMMIT-5")
@pytest.mark.parametrize("case", cases("hashes"), ids=lambda case: case["what"])
def test_hashes(case: dict[str, Any]) -> None:
    made = {
        "empty": lambda: empty_hash(case["id"]),
        "space": lambda: space_hash(case["space"]),
        "fact": lambda: fact_hash(
            case["kind"],
            case["id"],
            bytes.fromhex(case["parent"]),
            body_digest(as_bytes(case["salt"]), as_bytes(case["body"])),
        ),
        "request": lambda: request_digest(bytes.fromhex(case["nonce"]), bytes.fromhex(case["content"])),
    }[case["what"]]()
    assert made.hex() == case["hash"]
    assert reference(made) == case["reference"]
    assert hash_of(case["reference"]) == made


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("case", cases("dids"), ids=lambda case: case["did"][-6:])
def test_identities(case: dict[str, Any]) -> None:
    assert did_of(bytes.fromhex(case["public_key_hex"])) == case["did"]
    assert public_key_of(case["did"]).hex() == case["public_key_hex"]


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("case", vectors("dids")["invalid"], ids=lambda case: case["why"])
def test_texts_that_are_no_identity(case: dict[str, Any]) -> None:
    if not case["why"].startswith("small order"):
        with pytest.raises(NoIdentity):
            public_key_of(case["did"])


@pytest.mark.rule("WIRE-2")
@pytest.mark.parametrize("case", cases("signatures"), ids=lambda case: case["who"])
def test_signatures(case: dict[str, Any]) -> None:
    payload = opening_payload(
        server=case["server"],
        challenge=bytes.fromhex(case["challenge_hex"]),
        space=case["space"],
        principal=case["did"],
        session=bytes.fromhex(case["session_hex"]),
    )
    key = Key(bytes.fromhex(case["seed_hex"]))
    assert key.did == case["did"]
    assert payload.hex() == case["payload_hex"]
    assert key.sign(payload).hex() == case["signature_hex"]


def without_default_branch(message: dict[str, Any]) -> dict[str, Any]:
    """A field that has its default may be written out (WIRE-1), and in one form of a query it is."""
    for holder in (message, *message.get("watches", [])):
        if holder.get("query", {}).get("branch") == "main":
            del holder["query"]["branch"]
    return message


@pytest.mark.rule("WIRE-1", "WIRE-6")
@pytest.mark.parametrize("case", cases("messages"), ids=lambda case: case["title"])
def test_both_forms_of_a_message_say_the_same(case: dict[str, Any]) -> None:
    binary = without_default_branch(unpack(bytes.fromhex(case["msgpack_hex"])))
    assert json.loads(to_text(binary)) == case["json"]
    taken = from_text(json.dumps(case["json"]))
    assert taken == binary
    if case["title"] not in ("ok (history)", "ok (log)") and "query" not in taken and "watches" not in taken:
        assert pack(taken).hex() == case["msgpack_hex"]


@pytest.mark.rule("COMMIT-11", "WIRE-6")
@pytest.mark.parametrize(
    "case", [case for case in cases("messages") if "content_hex" in case], ids=lambda case: case["title"]
)
def test_the_request_digest_of_a_write(case: dict[str, Any]) -> None:
    message = unpack(bytes.fromhex(case["msgpack_hex"]))
    content = pack({name: value for name, value in message.items() if name not in ("id", "nonce")})
    assert content.hex() == case["content_hex"]
    assert request_digest(message["nonce"], content).hex() == case["request_digest_hex"]


@pytest.mark.rule("FACT-3", "WIRE-6")
def test_the_log_of_the_examples_hashes_to_what_it_shows() -> None:
    case = next(case for case in cases("messages") if case["title"] == "ok (log)")
    entries = unpack(bytes.fromhex(case["msgpack_hex"]))["result"]["entries"]
    entry = next(entry for entry in entries if entry["version"] == 3)
    assert plain_chain.commit_hash(vectors("messages")["space"], entry) == entry["hash"]
    assert body_digest(entry["note_salt"], entry["note"]) == entry["note_digest"]
    for item, expected in zip(entry["items"], entry["facts"], strict=True):
        made = fact_hash(item["kind"], item["id"], item["parent"], body_digest(item["salt"], item["body"]))
        assert made == expected


def entries_of(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The commits of chains.json in the shape of `log`."""
    bodies = {"previous", "session", "operation", "request", "arguments", "note_digest", "note", "note_salt", "hash"}
    made = []
    for commit in history:
        entry = {name: as_bytes(value) if name in bodies else value for name, value in commit.items()}
        entry = {name: value for name, value in entry.items() if value is not None}
        entry |= {"author": commit["principal"], "items": [item_of(fact) for fact in commit["facts"]]}
        entry["facts"] = [bytes.fromhex(fact["hash"]) for fact in commit["facts"]]
        made.append(entry)
    return made


def item_of(fact: dict[str, Any]) -> dict[str, Any]:
    item = {name: fact[name] for name in ("index", "id", "kind")}
    return item | {name: bytes.fromhex(fact[name]) for name in ("parent", "salt", "body") if fact[name] is not None}


@pytest.mark.rule("FACT-2", "FACT-3")
def test_a_history_verifies_to_its_head() -> None:
    history = vectors("chains")
    assert plain_chain.verify(history["space"], entries_of(history["history"])).hex() == history["head"]


@pytest.mark.rule("FACT-2", "FACT-3")
@pytest.mark.parametrize("number", range(len(cases("chains"))))
def test_a_changed_history_breaks_where_it_was_changed(number: int) -> None:
    file = vectors("chains")
    case, history = file["cases"][number], file["history"]
    if "remove" in case:
        del history[case["remove"]]
    else:
        commit = history[case["commit"]]
        (commit if case["fact"] is None else commit["facts"][case["fact"]])[case["field"]] = case["to"]
    with pytest.raises(plain_chain.Broken) as broken:
        plain_chain.verify(file["space"], entries_of(history))
    assert broken.value.version == case["broken_at"]


@pytest.mark.rule("PATCH-1")
@pytest.mark.parametrize("case", cases("patches"), ids=lambda case: case["comment"])
def test_patches(case: dict[str, Any]) -> None:
    if "expected" in case:
        assert plain_patch.equal(plain_patch.apply(case["value"], case["operations"]), case["expected"])
    else:
        with pytest.raises(plain_patch.CannotApply) as failed:
            plain_patch.apply(case["value"], case["operations"])
        assert failed.value.index == case["error"]["index"]


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("number", range(len(vectors("delegations")["tokens"])))
def test_delegations(number: int) -> None:
    file = vectors("delegations")
    keys = {key.did: key for key in (Key(bytes.fromhex(one["seed"])) for one in file["keys"])}
    case = file["tokens"][number]
    says = {name: value for name, value in case["says"].items() if name not in ("tag", "issuer")}
    says |= {"nonce": bytes.fromhex(says["nonce"]), "parent": as_bytes(says["parent"])}
    token = sealed(keys[case["says"]["issuer"]], **says)
    assert token.hex() == case["token"]
    assert digest(token).hex() == case["name"]


def frame_of(*titles: str) -> tuple[str, list[dict[str, Any]]]:
    found = {case["title"]: unpack(bytes.fromhex(case["msgpack_hex"])) for case in cases("messages")}
    return vectors("messages")["space"], [found[title] for title in titles]


@pytest.mark.rule("SYNC-1", "SYNC-3")
def test_the_frames_of_the_examples_lead_to_one_state_whole_or_in_parts() -> None:
    space, whole = frame_of("sync (someone else's commit)")
    _, parts = frame_of("sync (a large commit, its first part)", "sync (a large commit, its last part)")
    states = []
    for frames in (whole, parts):
        holding = Holding(space, b"s" * 16)
        first = frames[0]["commits"][0]["facts"][0]
        before = {"branch": "main", "id": first["id"], "version": 2, "hash": first["parent"]}
        body = pack({"title": "write the spec", "done": False})
        holding.take(
            {
                "type": "sync",
                "from": 0,
                "to": 2,
                "hash": digest(b"2"),
                "entered": [{"watch": 1, **before, "body": body}],
            }
        )
        assert [holding.take(part) for part in frames][-1]
        assert not holding.doubts
        states.append(
            (holding.to, holding.hash, holding.value(first["id"]), holding.entities["main", first["id"]].hash)
        )
    assert states[0] == states[1]
    assert states[0][2] == {"title": "write the spec", "done": True}
    _, [shown] = frame_of("sync (watches)")
    assert states[0][3] == shown["entered"][0]["hash"]
