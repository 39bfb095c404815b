"""The proxy of `stemmadb mcp` against a socket that a test answers on: what it sends again, and when it gives up."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from stemmadb.memory.process.finding import MemoryNote
from stemmadb.memory.process.mcp_proxy import ACCEPTED, McpProxy, ProxyGreeting

GREETING = ProxyGreeting("secret", None, "custom:a", None)
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "record_decision"}}


class Wires:
    """Both ends: the client's stdin and stdout, and the listening socket of a memory server."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(10)
        stdin, self._into = os.pipe()
        self._out, stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(stdin, "rb"), os.fdopen(stdout, "wb")
        self.typed, self.answers = os.fdopen(self._into, "wb"), os.fdopen(self._out, "rb")
        note = MemoryNote(sockets={"memory": str(path)}, spaces={})
        self.proxy = McpProxy(lambda: note, GREETING, self.stdin, self.stdout)
        self.thread = threading.Thread(target=self.proxy.run, daemon=True)
        self.thread.start()

    def type(self, *messages: object) -> None:
        for one in messages:
            self.typed.write(json.dumps(one).encode() + b"\n")
        self.typed.flush()

    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self.answers.readline()))

    @contextmanager
    def served(self, *, is_dying: bool = False) -> Iterator[BinaryIO]:
        """One life of a memory server; at the end of the block it dies. One that is dying reads nothing."""
        connection, _ = self.listener.accept()
        connection.settimeout(10)
        with connection, connection.makefile("rwb", buffering=0) as stream:
            if not is_dying:
                assert json.loads(stream.readline())["protocol"] == "mcp"
                stream.write(json.dumps(ACCEPTED).encode() + b"\n")
            yield stream  # type: ignore[misc]  # unbuffered, it is a raw stream; both read lines and write

    def close(self) -> None:
        self.typed.close()
        self.thread.join(10)
        for one in (self.stdin, self.stdout, self.answers, self.listener):
            one.close()


@pytest.fixture
def wires(tmp_path: Path) -> Iterator[Wires]:
    made = Wires(tmp_path / "s")
    yield made
    made.close()


def say(stream: BinaryIO, number: object) -> None:
    stream.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode() + b"\n")


@pytest.mark.rule("MCP-10")
def test_what_was_not_answered_is_sent_again_with_the_same_key_after_the_handshake(wires: Wires) -> None:
    with wires.served() as stream:
        wires.type(INITIALIZE)
        stream.readline()
        say(stream, 1)
        assert wires.answer()["id"] == 1
        wires.type(INITIALIZED, CALL)
        stream.readline()
        first = json.loads(stream.readline())
    assert len(first["params"]["_meta"]["idempotency_key"]) == 36
    with wires.served() as stream:
        assert [json.loads(stream.readline()) for _ in range(3)] == [INITIALIZE, INITIALIZED, first]
        say(stream, 1)
        say(stream, "x")
        assert wires.answer()["id"] == "x", "the client has the answer to its handshake already"


@pytest.mark.rule("MCP-10")
def test_a_request_is_sent_three_times_at_most(wires: Wires) -> None:
    for time in range(3):
        with wires.served() as stream:
            if time == 0:
                wires.type(CALL)
            stream.readline()
    given_up = wires.answer()
    assert (given_up["id"], given_up["error"]["code"]) == ("x", -32603)
    with wires.served() as stream:
        wires.type(CALL | {"id": 2})
        assert json.loads(stream.readline())["id"] == 2
        say(stream, 2)
        assert wires.answer()["id"] == 2


@pytest.mark.rule("MCP-10")
def test_a_memory_server_that_is_dying_costs_no_try(wires: Wires) -> None:
    with wires.served() as stream:
        wires.type(CALL)
        stream.readline()
    for _ in range(5):
        with wires.served(is_dying=True):
            pass
    with wires.served() as stream:
        assert json.loads(stream.readline())["id"] == "x"
        say(stream, "x")
        assert wires.answer() == {"jsonrpc": "2.0", "id": "x", "result": {}}


def test_a_key_of_the_client_is_kept(wires: Wires) -> None:
    with wires.served() as stream:
        wires.type(CALL | {"params": {"name": "t", "_meta": {"idempotency_key": "mine", "more": 1}}})
        sent = json.loads(stream.readline())
        assert sent["params"]["_meta"] == {"idempotency_key": "mine", "more": 1}
        say(stream, "x")
        assert wires.answer()["id"] == "x"
