"""The golden vectors of the core: what other languages test against holds here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from blake3 import blake3

from space import MemorySpace, session_of
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, Repeated
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import Commit, Identity, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import body, json_values, reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, Version

VECTORS = Path(__file__).parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


HASHES, BODIES, CHAINS, ADMISSION = (load(f"{name}.json") for name in ("hashes", "bodies", "chains", "admission"))


@pytest.mark.rule("FACT-2", "FACT-4", "COMMIT-5")
@pytest.mark.parametrize("case", HASHES["cases"], ids=lambda case: case["what"])
def test_hashes(case: dict[str, Any]) -> None:
    preimage = bytes.fromhex(case["preimage"])
    assert blake3(preimage).hexdigest() == case["hash"]
    assert reference.write(bytes.fromhex(case["hash"])) == case["reference"]
    assert encode(msgspec.msgpack.decode(preimage)) == preimage
    if case["what"] == "fact":
        salted = bytes.fromhex((case["salt"] or "") + (case["body"] or ""))
        assert blake3(salted).hexdigest() == case["digest"]


@pytest.mark.rule("MODEL-3", "MODEL-4")
@pytest.mark.parametrize("case", BODIES["cases"], ids=lambda case: case["body"][:24])
def test_bodies(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["body"])
    if "error" not in case:
        assert json_values.equal(body.read(data)[0], case["value"])
        return
    with pytest.raises(errors.InvalidValue) as caught:
        body.read(data)
    assert (caught.value.code, caught.value.facts["path"]) == (case["error"], case["path"])


def raw(text: str | None) -> Any:
    return None if text is None else bytes.fromhex(text)


def fact_of(data: dict[str, Any]) -> Fact:
    hexed = {name: raw(data[name]) for name in ("parent", "digest", "hash", "salt", "body")}
    return Fact(**{**data, **hexed})


def record_of(data: dict[str, Any]) -> tuple[Commit, list[Fact]]:
    facts = [fact_of(one) for one in data["facts"]]
    if data["operation"] is None:
        identity: Identity = LocalIdentity(data["principal"], raw(data["session"]), data["local"])
    else:
        identity = OperationIdentity(data["principal"], raw(data["operation"]))
    hexed = {
        name: raw(data[name])
        for name in ("previous", "request", "arguments", "note_digest", "note", "note_salt", "hash")
    }
    record = Commit(
        version=data["version"],
        time=data["time"],
        branch=data["branch"],
        fact_branches=tuple(data["fact_branches"]),
        facts=tuple(fact.hash for fact in facts),
        identity=identity,
        **hexed,
    )
    return record, facts


@pytest.mark.rule("FACT-3")
def test_the_chain_verifies_to_its_head() -> None:
    history = [record_of(one) for one in CHAINS["history"]]
    assert list(chain.verify(Did(CHAINS["space"]), history))[-1].hash == Hash(raw(CHAINS["head"]))


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize(
    "case", CHAINS["cases"], ids=lambda case: f"{case.get('field', 'removed')}-{case['broken_at']}"
)
def test_a_changed_chain_breaks_where_it_was_changed(case: dict[str, Any]) -> None:
    history = json.loads(json.dumps(CHAINS["history"]))
    if "remove" in case:
        del history[case["remove"]]
    else:
        place = history[case["commit"]]
        place = place if case["fact"] is None else place["facts"][case["fact"]]
        place[case["field"]] = case["to"]
    with pytest.raises(errors.BrokenChain) as caught:
        list(chain.verify(Did(CHAINS["space"]), [record_of(one) for one in history]))
    assert caught.value.facts["version"] == case["broken_at"]


def operation_of(data: dict[str, Any]) -> Operation:
    content = encode(data["body"]) if "body" in data else None
    return Operation(op=data["op"], id=EntityId(data["id"]), body=content, blind=data.get("blind", False))


def read_of(data: dict[str, Any]) -> Read:
    names = [one if isinstance(one, int) else (raw(one[0]), Local(one[1])) for one in data.get("locals", [])]
    return Read(**{**data, "version": Version(data["version"]), "locals": tuple(names)})


@pytest.mark.rule("COMMIT-2", "COMMIT-3", "COMMIT-4", "COMMIT-5", "COMMIT-6")
@pytest.mark.parametrize("case", ADMISSION["cases"], ids=lambda case: case["comment"])
def test_admission(case: dict[str, Any]) -> None:
    space = MemorySpace()
    for commit in case["commits"]:
        assert send(space, commit) == expected(commit)
    assert {id_: space.value(id_) for id_ in case["values"]} == case["values"]


def expected(commit: dict[str, Any]) -> dict[str, Any]:
    return {name: commit[name] for name in ("verdict", "version", "stale") if name in commit}


def send(space: MemorySpace, commit: dict[str, Any]) -> dict[str, Any]:
    try:
        proposal = space.propose(
            *map(operation_of, commit["operations"]),
            reads=[read_of(one) for one in commit["reads"]],
            branch=BranchName(commit["branch"]),
            author=Did(commit["author"]),
            session=commit["session"],
            local=commit["local"],
        )
    except errors.StemmaError as error:
        return {"verdict": error.code}
    assert isinstance(proposal.identity, LocalIdentity)
    assert proposal.identity.session == session_of(commit["session"])
    (outcome,) = space.decide([proposal])
    if isinstance(outcome, Accepted):
        return {"verdict": "accepted", "version": outcome.commit.version}
    if isinstance(outcome, Repeated):
        return {"verdict": "repeated", "version": outcome.version}
    told: dict[str, Any] = {"verdict": outcome.error.code}
    if outcome.error.code == "conflict":
        names = ("id", "path", "read", "head", "winner", "author")
        told["stale"] = [{name: getattr(one, name) for name in names} for one in outcome.error.facts["stale"]]
    return told
