"""What a client holds, by the procedure of docs/spec/04-protocol.md ("Applying a frame"), step by step."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.request import Content
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, EntityId, Hash, Version
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict
from stemmadb.protocol.wire.messages.sync import Sync

Key = tuple[BranchName, EntityId]


OWN: Final = Hash(bytes(32))
"""In the place of the parent of an own fact, which is not told: what is held continues."""
_GONE: Final = object()


class Held(NamedTuple):
    value: Any
    version: Version
    hash: Hash


class Holder:
    """Holds for each (branch, id) value, version and hash, and which watches hold it."""

    def __init__(self) -> None:
        self.to = EMPTY_SPACE
        self.hash: Hash | None = None
        self.held: dict[Key, Held] = {}
        self.watches: dict[int, set[Key]] = {}
        self.filled: set[int] = set()
        self.ended: dict[int, str] = {}
        self.sent: dict[int, Content] = {}
        """Own commits by local, whose bytes are here."""
        self.decided: dict[int, AcceptedVerdict | RejectedVerdict] = {}
        self.resets: list[str] = []

    def apply(self, frame: Sync) -> None:
        if frame.reset is not None:
            self.held, self.watches, self.filled, self.to = {}, {}, set(), EMPTY_SPACE
            self.resets.append(frame.reset)
        assert frame.from_ == self.to, f"a gap: {self.to} to {frame.from_}"
        skipped = {(one.branch, one.id) for one in frame.entered if one.body is not None} | self._leaving(frame)
        for version, told in self._in_order(frame):
            for fact in told:
                self._apply_fact(fact, skipped)
            assert version <= frame.to
        self._enter(frame)
        for left in frame.left:
            key = (left.branch, left.id)
            self.watches.setdefault(left.watch, set()).discard(key)
        self._settle(frame)
        self._prune()
        self.to, self.hash = frame.to, frame.hash

    def _in_order(self, frame: Sync) -> list[tuple[Version, list[Fact]]]:
        told = {
            one.version: [records.fact_of(i, one.version, one.branch) for i in one.facts] for one in frame.commits
        }
        assert list(told) == sorted(told), "commits come in order"
        assert all(frame.from_ < version <= frame.to for version in told)
        for verdict in frame.verdicts:
            if isinstance(verdict, AcceptedVerdict) and self._is_news(verdict, frame) and verdict.version not in told:
                told[verdict.version] = _own(self.sent[verdict.local], verdict)
        return sorted(told.items())

    def _is_news(self, verdict: AcceptedVerdict, frame: Sync) -> bool:
        is_known = verdict.session is None and verdict.local in self.sent
        return is_known and frame.from_ < verdict.version and verdict.local not in self.decided

    def _leaving(self, frame: Sync) -> set[Key]:
        """What no watch will hold after this frame: its facts need not be told."""
        left = {(one.watch, (one.branch, one.id)) for one in frame.left}
        stays = {key for watch, keys in self.watches.items() for key in keys if (watch, key) not in left}
        return self.held.keys() - stays - {(one.branch, one.id) for one in frame.entered}

    def _apply_fact(self, fact: Fact, skipped: set[Key]) -> None:
        key = (fact.branch, fact.id)
        before = self.held.get(key)
        if before is None or key in skipped:
            return
        parent = before.hash if fact.parent == OWN else fact.parent
        assert parent == before.hash, f"{key} at {fact.version} does not continue what is held"
        assert facts.hash_fact(fact.kind, fact.id, parent, fact.digest) == fact.hash
        self.held[key] = Held(_after(fact, before.value), fact.version, fact.hash)

    def _enter(self, frame: Sync) -> None:
        for one in frame.entered:
            if one.body is not None:
                self.held[one.branch, one.id] = Held(body.read_stored(one.body), one.version, one.hash)
        for one in frame.entered:
            key = (one.branch, one.id)
            assert self.held[key].hash == one.hash, f"{key} is not what entered"
            self.watches.setdefault(one.watch, set()).add(key)

    def _settle(self, frame: Sync) -> None:
        for verdict in frame.verdicts:
            self.decided.setdefault(verdict.local, verdict)
        self.filled |= set(frame.filled)
        for ended in frame.ended:
            self.ended[ended.watch] = ended.code
            self.watches.pop(ended.watch, None)
            self.filled.discard(ended.watch)

    def forget(self, watch: int) -> None:
        """A watch is over, or is asked for anew: what no watch holds is no longer kept true."""
        self.watches.pop(watch, None)
        self.filled.discard(watch)
        self._prune()

    def _prune(self) -> None:
        held = set().union(*self.watches.values())
        self.held = {key: one for key, one in self.held.items() if key in held}

    def answer(self, watch: int) -> dict[EntityId, tuple[Any, Version, Hash]]:
        """What the watch holds."""
        keys = self.watches.get(watch, set())
        return {id_: tuple(self.held[branch, id_]) for branch, id_ in keys}


def _own(content: Content, verdict: AcceptedVerdict) -> list[Fact]:
    """The facts of an own commit: the operations that were sent, with the salts of the verdict."""
    made = []
    for index, operation in enumerate(content.operations):
        salt = verdict.salts[index]
        made.append(
            Fact(
                version=verdict.version,
                index=index,
                branch=content.branch,
                id=operation.id,
                kind=operation.op,
                parent=OWN,
                digest=facts.NO_BODY if salt is None else facts.digest_of(salt, operation.body or b""),
                hash=verdict.hashes[index],
                salt=salt,
                body=operation.body,
            )
        )
    return made


def _after(fact: Fact, before: Any) -> Any:
    if fact.kind == "delete":
        return _GONE
    assert fact.body is not None
    if fact.kind == "patch":
        assert before is not _GONE
        return patch.apply(before, body.read_patch(fact.body))
    return body.read_stored(fact.body)
