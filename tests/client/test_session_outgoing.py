"""The queue of commits on their way: order, room, and what the server asked to wait for (COMMIT-10)."""

from __future__ import annotations

from typing import cast

import pytest

from stemmadb.client.nursery.commit_names import CommitNames
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.session.outgoing import Outgoing
from stemmadb.protocol.errors import LimitExceeded, StemmaError
from stemmadb.protocol.model.values.ids import MAIN, Local
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.commit import CommitMessage

OLD, NEW = b"o" * 16, b"n" * 16


class Wire:
    """A connection of the session NEW that notes what is sent, and has room for so many."""

    may_commit = True

    def __init__(self, room: int = 1_000) -> None:
        self.sent: list[CommitName] = []
        self.room = room

    def commit(self, message: CommitMessage) -> bytes:
        if message.content == b"too large":
            raise LimitExceeded(bound="message_bytes_max", maximum=1, actual=2)
        self.sent.append(CommitName(message.session or NEW, message.local))
        return b""

    def send(self, _data: bytes | str) -> bool:
        self.room -= 1
        return self.room > 0


class Queue(Outgoing):
    """An outgoing queue over a plain set of what is pending."""

    def __init__(self, *commits: Pending) -> None:
        self.pending = {one.name: one for one in commits}
        self.refused: list[tuple[CommitName, StemmaError]] = []
        super().__init__(find=self.pending.get, refuse=lambda one, error: self.refused.append((one.name, error)))
        self.start_over(commits)

    def push(self, wire: Wire) -> list[int]:
        """What is sent now, by number."""
        before = len(wire.sent)
        self.flush(cast("ClientConnection", wire), wire.send, session=NEW)
        return [name.local for name in wire.sent[before:]]


def commit(number: int, session: bytes = NEW, *, on: Pending | None = None, content: bytes = b"x") -> Pending:
    depends = CommitNames.of([] if on is None else [on.name])
    name = CommitName(session, Local(number))
    return Pending(name, nonce=b"", content=content, branch=MAIN, writes=(), depends=depends)


@pytest.mark.rule("COMMIT-10")
def test_what_was_deferred_is_sent_again_in_the_order_it_was_sent_before_anything_newer() -> None:
    first, second, third = commit(8, OLD), commit(9, OLD), commit(1)
    queue, wire = Queue(first, second, third), Wire()
    assert queue.push(wire) == [8, 9, 1]
    assert [queue.defer(one.name) for one in (third, second, first)] == [True] * 3
    newer = commit(2)
    queue.pending[newer.name] = newer
    queue.add(newer)
    assert queue.push(wire) == []
    assert len(queue) == 4
    queue.resume()
    assert queue.push(wire) == [8, 9, 1, 2]


@pytest.mark.rule("COMMIT-4", "COMMIT-10")
def test_a_commit_built_on_an_undecided_one_of_another_session_waits_for_its_verdict() -> None:
    below = commit(8, OLD)
    above = commit(1, on=below)
    queue, wire = Queue(below, above), Wire()
    assert queue.push(wire) == [8]
    queue.settled([below.name])
    queue.pending.pop(below.name)
    assert queue.push(wire) == [1]
    within = commit(2, on=above)
    assert Queue(above, within).push(Wire()) == [1, 2]


def test_past_its_room_a_connection_is_given_nothing_until_it_is_drained() -> None:
    queue, wire = Queue(*(commit(number) for number in range(1, 8))), Wire(room=3)
    assert queue.push(wire) == [1, 2, 3]
    assert queue.push(wire) == []
    wire.room = 2
    queue.drained()
    assert queue.push(wire) == [4, 5]


def test_what_fell_is_not_sent_and_what_is_too_large_now_is_refused() -> None:
    first, second, third = commit(1), commit(2, content=b"too large"), commit(3)
    queue, wire = Queue(first, second, third), Wire()
    queue.pending.pop(first.name)
    assert queue.push(wire) == [3]
    assert [(name.local, error.code) for name, error in queue.refused] == [(2, "limit_exceeded")]


@pytest.mark.rule("COMMIT-10", "NURSERY-3")
def test_what_fell_after_it_was_deferred_is_sent_again_since_the_server_waits_for_it() -> None:
    first, second = commit(1), commit(2)
    queue, wire = Queue(first, second), Wire()
    queue.push(wire)
    queue.defer(first.name)
    queue.defer(second.name)
    queue.pending.pop(first.name)
    queue.resume()
    assert queue.push(wire) == [1, 2]
    queue.settled([first.name])
    assert not queue.defer(first.name)


def test_a_new_connection_starts_over_with_all_that_is_pending() -> None:
    first, second = commit(1), commit(2)
    queue, wire = Queue(first, second), Wire()
    queue.push(wire)
    queue.defer(first.name)
    queue.start_over((first, second))
    assert not queue.is_paused
    assert queue.sent == {}
    assert queue.push(wire) == [1, 2]
