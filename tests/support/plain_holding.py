"""What a client holds, and how a frame changes it: "Applying a frame" of docs/spec/04-protocol.md, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import plain_patch
from plain_bytes import body_digest, fact_hash, space_hash, unpack

Fields = dict[str, Any]
Place = tuple[str, str]
Identity = tuple[bytes, int]


class BrokenStream(Exception):
    """A frame does not continue the stream: a client closes the connection (WIRE-4)."""


@dataclass
class Held:
    """An entity of a branch: its value if it has one, and the watches that hold it."""

    value: Any
    exists: bool
    version: int
    hash: bytes
    watches: set[int] = field(default_factory=set)
    known: bool = True


@dataclass
class Watch:
    query: Fields
    filled: bool = False
    ended: Fields | None = None


@dataclass
class Sent:
    """An undecided commit: the bytes that are sent, and sent again as they were."""

    session: bytes
    local: int
    nonce: bytes
    content: bytes


class Holding:
    """The confirmed state of one session, over any number of connections."""

    def __init__(self, space: str, session: bytes) -> None:
        self.space, self.session = space, session
        self.to, self.hash = 0, space_hash(space)
        self.entities: dict[Place, Held] = {}
        self.watches: dict[int, Watch] = {}
        self.pending: dict[Identity, Sent] = {}
        self.verdicts: dict[Identity, Fields] = {}
        self.confirmed: dict[Identity, tuple[int, bytes]] = {}
        self.lost: list[Identity] = []
        self.frames: list[Fields] = []
        self.doubts: list[str] = []
        """What made an entity unknown; a right server gives no reason for any."""
        self._parts: list[Fields] = []

    def held_by(self, watch: int) -> dict[str, tuple[int, bytes, Any]]:
        """What a watch holds: version, hash and value of each entity."""
        return {
            entity: (held.version, held.hash, held.value)
            for (_, entity), held in self.entities.items()
            if watch in held.watches
        }

    def value(self, entity: str, branch: str = "main") -> Any:
        """KeyError if it is not held, or has no value."""
        held = self.entities[branch, entity]
        if not held.exists:
            raise KeyError(entity)
        return held.value

    def unwatch(self, number: int) -> None:
        self.watches.pop(number, None)
        self.release(number)

    def release(self, number: int) -> None:
        """Takes the watch from all its entities."""
        for held in self.entities.values():
            held.watches.discard(number)
        self._drop_unwatched()

    def unknown(self) -> list[Place]:
        return [place for place, held in self.entities.items() if not held.known]

    def take(self, part: Fields) -> bool:
        """One part of a frame; whether it was the last, so that the frame is applied."""
        if self._parts and any(
            part.get(name) != self._parts[0].get(name) for name in ("from", "to", "hash", "reset")
        ):
            raise BrokenStream("a part does not belong to the parts before")
        self._parts.append(part)
        if part.get("more"):
            return False
        frame, self._parts = _joined(self._parts), []
        self._check(frame)
        self._apply(frame)
        self.frames.append(frame)
        return True

    def forget_parts(self) -> None:
        """The connection broke inside a frame: nothing of it counts."""
        self._parts = []

    def _check(self, frame: Fields) -> None:
        start = 0 if "reset" in frame else self.to
        if frame["from"] != start:
            raise BrokenStream(f"a frame from {frame['from']} after {start}")
        if frame["to"] < frame["from"]:
            raise BrokenStream("versions fall")
        if frame["from"] == frame["to"] and "reset" not in frame and frame["hash"] != self.hash:
            raise BrokenStream("the same version has another hash")
        versions = [commit["version"] for commit in frame["commits"]]
        if versions != sorted(set(versions)) or any(not frame["from"] < v <= frame["to"] for v in versions):
            raise BrokenStream(f"commits {versions} in a frame from {frame['from']} to {frame['to']}")

    def _apply(self, frame: Fields) -> None:
        if "reset" in frame:
            self._start_over(frame)
        passed_by = {(item["branch"], item["id"]) for item in frame["entered"] if item.get("body") is not None}
        passed_by |= self._let_go(frame)
        for _, facts in sorted(self._changes(frame), key=lambda change: change[0]):
            for place, fact in facts:
                if place in self.entities and place not in passed_by:
                    self._fact(place, fact)
        self._enter(frame["entered"])
        for item in frame["left"]:
            if (held := self.entities.get((item["branch"], item["id"]))) is not None:
                held.watches.discard(item["watch"])
        for number in frame["filled"]:
            if number in self.watches:
                self.watches[number].filled = True
        for ended in frame["ended"]:
            self._end(ended)
        self._drop_unwatched()
        self.to, self.hash = frame["to"], frame["hash"]

    def _let_go(self, frame: Fields) -> set[Place]:
        """What this frame takes away from the last watch that holds it; nothing more is told of it."""
        taken: dict[Place, set[int]] = {}
        for item in frame["left"]:
            taken.setdefault((item["branch"], item["id"]), set()).add(item["watch"])
        entered = {(item["branch"], item["id"]) for item in frame["entered"]}
        return {
            place
            for place, watches in taken.items()
            if place in self.entities and place not in entered and self.entities[place].watches <= watches
        }

    def _start_over(self, frame: Fields) -> None:
        self.entities.clear()
        for watch in self.watches.values():
            watch.filled = False
        if frame["reset"] == "history":
            kept = {(item.get("session", self.session), item["local"], item["hash"]) for item in frame["kept"]}
            self.lost = [identity for identity, (_, mine) in self.confirmed.items() if (*identity, mine) not in kept]

    def _changes(self, frame: Fields) -> Iterator[tuple[int, list[tuple[Place, Fields]]]]:
        """The facts of others and of own commits, with the version of each commit."""
        told = {commit["version"] for commit in frame["commits"]}
        for commit in frame["commits"]:
            yield (
                commit["version"],
                [
                    ((commit.get("branch") or fact["branch"], fact["id"]), {**fact, "version": commit["version"]})
                    for fact in commit["facts"]
                ],
            )
        for verdict in frame["verdicts"]:
            sent = self._settle(verdict)
            if sent is None or verdict["verdict"] != "accepted":
                continue
            if verdict["version"] not in told and verdict["version"] > frame["from"]:
                yield verdict["version"], _own_facts(sent, verdict)

    def _settle(self, verdict: Fields) -> Sent | None:
        """The commit that a verdict decides; none if it is decided already."""
        identity = (verdict.get("session", self.session), verdict["local"])
        if identity not in self.verdicts:
            self.verdicts[identity] = verdict
            if verdict["verdict"] == "accepted":
                self.confirmed[identity] = (verdict["version"], verdict["hash"])
        return self.pending.pop(identity, None)

    def _fact(self, place: Place, fact: Fields) -> None:
        held, entity = self.entities[place], place[1]
        parent = fact.get("parent", held.hash)
        if parent != held.hash:
            return self._doubt(place, f"the parent of {entity} at {fact['version']} is not what is held")
        if "digest" in fact:
            return self._doubt(place, f"the body of {entity} at {fact['version']} is gone")
        computed = fact_hash(fact["kind"], entity, parent, body_digest(fact.get("salt"), fact.get("body")))
        if fact.get("expected", computed) != computed:
            return self._doubt(place, f"the hash of {entity} at {fact['version']} is another")
        try:
            held.value, held.exists = _changed(held, fact)
        except plain_patch.CannotApply as error:
            return self._doubt(place, f"the patch of {entity} at {fact['version']} does not apply: {error}")
        held.version, held.hash = fact["version"], computed
        return None

    def _doubt(self, place: Place, why: str) -> None:
        self.doubts.append(why)
        self.entities[place].known = False

    def _enter(self, entered: list[Fields]) -> None:
        for item in entered:
            if item.get("body") is not None:
                place = (item["branch"], item["id"])
                watches = self.entities[place].watches if place in self.entities else set()
                self.entities[place] = Held(unpack(item["body"]), True, item["version"], item["hash"], watches)
        for item in entered:
            place = (item["branch"], item["id"])
            if place not in self.entities:
                self.entities[place] = Held(None, False, item["version"], b"", known=False)
            self.entities[place].watches.add(item["watch"])
            if self.entities[place].hash != item["hash"]:
                self._doubt(place, f"{item['id']} entered watch {item['watch']} without a body that is held")

    def _end(self, ended: Fields) -> None:
        number = ended["watch"]
        if number in self.watches:
            self.watches[number].ended = ended
        for held in self.entities.values():
            held.watches.discard(number)

    def _drop_unwatched(self) -> None:
        self.entities = {place: held for place, held in self.entities.items() if held.watches}


def _changed(held: Held, fact: Fields) -> tuple[Any, bool]:
    """The value after a fact, and whether there is one."""
    if fact["kind"] in ("set", "checkpoint"):
        return unpack(fact["body"]), True
    if fact["kind"] == "delete":
        return None, False
    return plain_patch.apply(held.value, unpack(fact["body"])), True


def _own_facts(sent: Sent, verdict: Fields) -> list[tuple[Place, Fields]]:
    """The facts of an own commit: its operations, with the salts and hashes of the verdict (SYNC-2)."""
    content = unpack(sent.content)
    branch = content.get("branch", "main")
    if not len(content["operations"]) == len(verdict["hashes"]) == len(verdict["salts"]):
        raise BrokenStream(f"the verdict on {sent.local} has not one hash and one salt for each operation")
    return [
        (
            (branch, operation["id"]),
            {
                "kind": operation["op"], "body": operation.get("body"), "salt": salt, "expected": expected,
                "version": verdict["version"],
            },
        )
        for operation, expected, salt in zip(
            content["operations"], verdict["hashes"], verdict["salts"], strict=True
        )
    ]  # fmt: skip


LISTS = ("verdicts", "commits", "entered", "left", "filled", "ended", "kept")


def _joined(parts: list[Fields]) -> Fields:
    """One frame of its parts: lists go on from part to part, and so do the facts of one commit (SYNC-1)."""
    frame: Fields = {name: value for name, value in parts[0].items() if name not in (*LISTS, "more")}
    for name in LISTS:
        frame[name] = [item for part in parts for item in part.get(name) or []]
    frame["parts"] = len(parts)
    commits: list[Fields] = []
    for commit in frame["commits"]:
        if commits and commits[-1]["version"] == commit["version"]:
            commits[-1]["facts"] += commit["facts"]
        else:
            commits.append({**commit, "facts": list(commit["facts"])})
    frame["commits"] = commits
    return frame
