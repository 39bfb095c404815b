"""A flood of connections or messages: the memory and the log of a real server stay small."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plain_content import set_
from plain_world import ServedSpace, new_key
from served import Process

pytestmark = pytest.mark.asyncio(loop_scope="module")
MEBIBYTE = 1024 * 1024
VISITORS = 30
LOST_BYTES = 15 * MEBIBYTE
GONE_SECONDS = 5.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    made.start()
    yield made
    made.stop()


def half_a_message(address: str) -> socket.socket:
    """A stranger that sends most of a message, and no more."""
    where = urlsplit(address)
    made = socket.create_connection((where.hostname or "", where.port or 0))
    made.sendall(
        f"GET /v1/spaces/{new_key().did} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Protocol: stemma.v1.msgpack\r\n\r\n".encode()
    )
    made.recv(4_096)
    made.sendall(b"\x82\xff" + struct.pack("!Q", 16 * MEBIBYTE - 1) + b"\0\0\0\0")
    rest = memoryview(bytes(LOST_BYTES))
    with suppress(OSError):  # it was cut before, which is as good
        made.sendall(rest)
    return made


async def test_what_a_stranger_sent_is_forgotten_with_its_connection(server: Process) -> None:
    before = server.resident_bytes()
    for _ in range(VISITORS):
        half_a_message(server.address).close()
    until = time.monotonic() + GONE_SECONDS
    while server.resident_bytes() - before > 10 * LOST_BYTES and time.monotonic() < until:
        await asyncio.sleep(0.05)
    assert server.resident_bytes() - before < 10 * LOST_BYTES


async def test_a_stranger_cannot_send_more_than_an_opening_may_have(server: Process) -> None:
    before = server.resident_bytes()
    open_ = [half_a_message(server.address) for _ in range(VISITORS)]
    taken = server.resident_bytes() - before
    for one in open_:
        one.close()
    assert taken < VISITORS * 4 * MEBIBYTE


@pytest.mark.rule("RESUME-2")
async def test_who_asks_for_all_its_verdicts_does_not_make_the_server_read_all_its_values(server: Process) -> None:
    served_space = ServedSpace(server.address)
    await served_space.found()
    writer = await served_space.enter()
    for number in range(30):
        await writer.write_now(set_(f"urn:{number}", "x" * (7 * MEBIBYTE)))
    await writer.close()
    before = most = server.resident_bytes()
    again = served_space.client(session=writer.holding.session)
    opening = asyncio.create_task(again.open(lowest=1))
    while not opening.done():
        await asyncio.sleep(0.005)
        most = max(most, server.resident_bytes())
    assert len((await opening)["verdicts"]) == 30
    await served_space.close()
    assert most - before < 100 * MEBIBYTE


async def test_a_flood_of_connections_leaves_the_storage_its_descriptors(tmp_path: Path) -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128));"
        "from stemmadb.client.cli import main; sys.argv = ['stemmadb', *sys.argv[1:]]; main()"
    )
    command = [sys.executable, "-c", code, "serve", "--port", "0", "--data", str(tmp_path / "data")]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603
    assert process.stdout is not None
    try:
        address = next(word for line in process.stdout for word in line.split() if word.startswith("ws://"))
        served_space, where = ServedSpace(address), urlsplit(address)
        await served_space.found()
        writer = await served_space.enter()
        flood = [socket.create_connection((where.hostname or "", where.port or 0)) for _ in range(300)]
        await writer.request("ping")
        begun = await writer.request("blob.begin", blob=bytes(32), size=10, content_type="text/plain")
        assert begun["offset"] == 0
        for one in flood:
            one.close()
        await served_space.close()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
    assert (tmp_path / "log").read_text().count("out of system resource") < 20
