"""Verifies a space from what `log` tells, by FACT-2 and FACT-3 alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from plain_bytes import body_digest, digest, empty_hash, fact_hash, pack, space_hash, unpack

NIL = pack(None)
Heads = dict[tuple[str, str], bytes]
Forks = dict[str, tuple[str, Heads]]


class Broken(Exception):
    """History does not verify at `version`."""

    def __init__(self, version: int, why: str) -> None:
        super().__init__(f"version {version}: {why}")
        self.version = version


def join_pages(pages: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The entries of all pages; an entry that a page ended inside of is made whole."""
    entries: list[dict[str, Any]] = []
    for page in pages:
        for entry in page:
            if entries and entries[-1]["version"] == entry["version"]:
                entries[-1].setdefault("items", []).extend(entry.get("items", []))
            else:
                entries.append(dict(entry))
    return entries


def commit_hash(space: str, entry: dict[str, Any]) -> bytes:
    number = entry.get("local") if entry.get("session") is not None else entry["operation"]
    return digest(
        pack(
            [
                "stemma.v1 commit", space, entry["previous"], entry["version"], entry.get("arguments", NIL),
                entry.get("branch"), entry["author"], entry.get("session"), number, entry["time"], entry["request"],
                entry["note_digest"], entry.get("facts", []), entry.get("fact_branches", []),
            ]
        )
    )  # fmt: skip


def verify(space: str, entries: list[dict[str, Any]]) -> bytes:
    """Walks all commits from the first, which are all here with all their facts; the hash of the last one."""
    before, time = space_hash(space), 0
    parents: Heads = {}
    forks: Forks = {}
    history: list[Heads] = [{}]
    for expected, entry in enumerate(entries, start=1):
        version = entry["version"]
        _hold(version == expected, expected, "a commit is missing")
        _hold(entry["previous"] == before, version, "it does not continue the commit before")
        _hold(entry["time"] >= time, version, "time goes back")
        if entry.get("note") is not None:
            _hold(body_digest(entry["note_salt"], entry["note"]) == entry["note_digest"], version, "note")
        _facts(entry, parents, forks)
        _hold(commit_hash(space, entry) == entry["hash"], version, "its hash")
        before, time = entry["hash"], entry["time"]
        history.append(dict(parents))
        _fork(entry, history, forks)
    return before


def _hold(held: bool, version: int, why: str) -> None:
    if not held:
        raise Broken(version, why)


def _fork(
    entry: dict[str, Any],
    history: list[Heads],
    forks: Forks,
) -> None:
    made = unpack(entry.get("arguments", NIL))
    if made and made["kind"] == "branch.create":
        forks[made["name"]] = (made["parent"], history[made["fork"]])


def _facts(
    entry: dict[str, Any],
    parents: Heads,
    forks: Forks,
) -> None:
    version, hashes, items = entry["version"], entry.get("facts", []), entry.get("items", [])
    _hold([item["index"] for item in items] == list(range(len(hashes))), version, "facts are missing")
    for item, expected in zip(items, hashes, strict=True):
        branch, entity, salt = entry.get("branch") or item["branch"], item["id"], item.get("salt")
        _hold(item["parent"] == _head(branch, entity, parents, forks), version, f"the parent of {entity}")
        _hold(salt is None or len(salt) == 16, version, "a salt has 16 bytes")
        body = item["digest"] if "digest" in item else body_digest(salt, item.get("body"))
        _hold(fact_hash(item["kind"], entity, item["parent"], body) == expected, version, f"the hash of {entity}")
        parents[branch, entity] = expected


def _head(
    branch: str,
    entity: str,
    parents: Heads,
    forks: Forks,
) -> bytes:
    """The entity's fact before, looking through the fork points (FACT-2)."""
    while True:
        if (branch, entity) in parents:
            return parents[branch, entity]
        if branch not in forks:
            return empty_hash(entity)
        branch, parents = forks[branch]
