"""Requests that wait for their answers, across lost connections too (WIRE-4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.base import UNANSWERED_MAX, ConnectionState
from stemmadb.protocol.wire.connection.client_side import Answered, ClientConnection
from stemmadb.protocol.wire.messages.base import Part, Request, WriteRequest

OnAnswer: TypeAlias = Callable[[Part | StemmaError], None]
NAMING_VERSIONS: Final = ("versions", "version", "since", "fork", "floor", "source_version", "expect_target")
"""The fields of a write that name commits of the history that the app knows."""


class QueuedRequest:
    """A request that is sent on each connection until it is answered."""

    __slots__ = ("fields", "is_lasting", "kind", "names_versions", "on_answer")

    def __init__(self, kind: type[Request], fields: dict[str, Any], on_answer: OnAnswer, *, is_lasting: bool) -> None:
        self.kind = kind
        self.fields = fields
        self.on_answer = on_answer
        self.is_lasting = is_lasting
        is_write = issubclass(kind, WriteRequest)
        self.names_versions = is_write and any(fields.get(name) is not None for name in NAMING_VERSIONS)
        """Whether it writes what it would not mean on a server that has another history (RESUME-4)."""


class OutgoingRequests:
    """All unanswered requests; a new connection sends them again, in order.

    A write that names versions waits for the first frame, which shows whether they are still the same commits.
    """

    def __init__(self) -> None:
        self._waiting: dict[QueuedRequest, None] = {}
        self._sent: dict[int, QueuedRequest] = {}
        self._connection: ClientConnection | None = None
        self._send: Callable[[Data], object] = _nowhere
        self._refusal: StemmaError | None = None
        self._is_history_known = False
        self.opened = 0
        """How many connections there have been: the number of the one that is open, if one is."""

    def ask(
        self, kind: type[Request], fields: dict[str, Any], on_answer: OnAnswer, *, is_lasting: bool = True
    ) -> QueuedRequest:
        """Asks now, or as soon as there is a connection. `on_answer` is called once, with the result or the error.

        One that is not lasting ends with its connection without a call: opening the next one says the same. While
        the server refuses the session, the caller gets the refusal at once.
        """
        queued = QueuedRequest(kind, fields, on_answer, is_lasting=is_lasting)
        if self._refusal is not None:
            on_answer(self._refusal)
            return queued
        self._waiting[queued] = None
        self._flush()
        return queued

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to ask on."""
        return self._connection is not None

    def give_up(self, queued: QueuedRequest) -> None:
        """Nobody waits for it any more; an answer that still comes is ignored."""
        self._waiting.pop(queued, None)
        queued.on_answer = _ignore

    def open(self, connection: ClientConnection, send: Callable[[Data], object]) -> None:
        """There is a connection: everything that waits is asked on it."""
        self._connection, self._send, self._refusal = connection, send, None
        self._is_history_known = False
        self.opened += 1
        self._flush()

    def begin(self, restored: StemmaError | None = None) -> None:
        """The first frame has come. With `restored` the server has another history: what names versions fails."""
        strange = [one for one in self._waiting if one.names_versions] if restored is not None else []
        for queued in strange:
            del self._waiting[queued]
        self._is_history_known = True
        self._flush()
        for queued in strange:
            assert restored is not None
            queued.on_answer(restored)

    def lose(self) -> None:
        """The connection is gone; what was asked on it is asked again on the next."""
        again = [one for one in self._sent.values() if one.on_answer is not _ignore]
        self._waiting = dict.fromkeys(one for one in (*again, *self._waiting) if one.is_lasting)
        self._sent.clear()
        self._connection = None

    def answered(self, event: Answered) -> None:
        queued = self._sent.pop(event.request.id)
        self._flush()
        queued.on_answer(event.result)

    def refuse(self, error: StemmaError) -> None:
        """The server will not have us: none is answered, and none that is asked before the next connection."""
        self._refusal = error
        self.fail(error)

    def fail(self, error: StemmaError) -> None:
        """None of them will be answered."""
        waiting = [*self._sent.values(), *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        for queued in waiting:
            queued.on_answer(error)

    def _flush(self) -> None:
        """A connection that the server has closed is still here until it is lost; nothing is asked on it."""
        while self._connection is not None and len(self._sent) < UNANSWERED_MAX:
            queued = next((one for one in self._waiting if self._may_ask(one)), None)
            if queued is None or self._connection.state is not ConnectionState.OPEN:
                return
            del self._waiting[queued]
            request = queued.kind(id=self._connection.next_id(), **queued.fields)
            self._sent[request.id] = queued
            try:
                data = self._connection.request(request)
            except StemmaError as error:  # it is larger than the server takes
                del self._sent[request.id]
                queued.on_answer(error)
                continue
            self._send(data)

    def _may_ask(self, queued: QueuedRequest) -> bool:
        return self._is_history_known or not queued.names_versions


def _nowhere(_data: Data) -> None:
    raise AssertionError("nothing is sent without a connection")


def _ignore(_result: Part | StemmaError) -> None:
    """Nobody waits."""
