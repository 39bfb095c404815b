"""Listeners under test: handlers that record their calls, a raw peer that can misbehave, and a certificate.

async with listening(WebsocketsListener) as it:
    peer = await it.peer()                       # the handshake is done
    handler = await it.handlers.next()
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from space import SPACE
from stemmadb.protocol.errors import LimitExceeded, StemmaError
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import JSON, MSGPACK, space_path
from stemmadb.server.service.base.transport import Arrival, Socket
from stemmadb.server.serving.listeners.http import Http, HttpAnswer, HttpRequest
from stemmadb.server.serving.listeners.listener import Listener, ListenerSettings
from stemmadb.server.serving.listeners.picows_listener import PicowsListener
from stemmadb.server.serving.listeners.websockets_listener import WebsocketsListener
from stemmadb.server.serving.ownership.routing import Routing

PATIENCE = 20.0
PATH = space_path(SPACE)
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
Make = Callable[[ListenerSettings], Listener]


async def patiently(awaitable: Any) -> Any:
    """Nothing in a test waits forever."""
    async with asyncio.timeout(PATIENCE):
        return await awaitable


async def turns(count: int = 20) -> None:
    """Lets the event loop go round, so that what was written on one side is read on the other."""
    for _ in range(count):
        await asyncio.sleep(0)


class RecordingHandler:
    """Records what the listener calls, in order; `on_received` may do more."""

    def __init__(self, socket: Socket, arrival: Arrival, handlers: RecordingHandlers) -> None:
        self.socket = socket
        self.arrival = arrival
        self.calls: list[str] = []
        self.errors: list[StemmaError] = []
        self.messages: asyncio.Queue[Data] = asyncio.Queue()
        self.was_drained = asyncio.Event()
        self.was_lost = asyncio.Event()
        self._handlers = handlers

    def received(self, data: Data) -> None:
        self.calls.append("received")
        self.messages.put_nowait(data)
        self._handlers.on_received(self, data)

    def overrun(self, error: StemmaError) -> None:
        self.calls.append("overrun")
        self.errors.append(error)
        self.socket.send(b"goodbye")
        self.socket.close(1009 if isinstance(error, LimitExceeded) else 1013)

    def drained(self) -> None:
        self.calls.append("drained")
        self.was_drained.set()
        self._handlers.on_drained(self)

    def lost(self) -> None:
        self.calls.append("lost")
        self.was_lost.set()
        self._handlers.on_lost(self)

    async def message(self) -> Data:
        data: Data = await patiently(self.messages.get())
        return data

    async def gone(self) -> None:
        """`lost` was called, once and last."""
        await patiently(self.was_lost.wait())
        await asyncio.sleep(0)
        assert self.calls.count("lost") == 1
        assert self.calls[-1] == "lost"


class RecordingHandlers:
    """Makes a recording handler for every connection."""

    def __init__(self) -> None:
        self._handlers: asyncio.Queue[RecordingHandler] = asyncio.Queue()
        self.everybody: list[RecordingHandler] = []
        self.welcomed = 0
        self.on_welcome: Callable[[Socket], None] = lambda _: None
        self.on_received: Callable[[RecordingHandler, Data], None] = lambda _handler, _data: None
        self.on_drained: Callable[[RecordingHandler], None] = lambda _: None
        self.on_lost: Callable[[RecordingHandler], None] = lambda _: None
        self.trusts = True

    def welcome(self, socket: Socket, arrival: Arrival) -> RecordingHandler:
        self.welcomed += 1
        if self.trusts:
            socket.trust()
        self.on_welcome(socket)
        handler = RecordingHandler(socket, arrival, self)
        self._handlers.put_nowait(handler)
        self.everybody.append(handler)
        return handler

    async def next(self) -> RecordingHandler:
        handler: RecordingHandler = await patiently(self._handlers.get())
        return handler


class RawPeer:
    """A client that writes the bytes it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status and headers of the answer."""
        lines = (await patiently(self.reader.readuntil(b"\r\n\r\n"))).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), {name.lower(): value for name, value in headers.items()}

    async def answer(self) -> tuple[int, str]:
        """The status and the text of an answer, after which the connection ends."""
        status, headers = await self.head()
        body: bytes = await patiently(self.reader.read())
        assert len(body) == int(headers["content-length"])
        return status, body.decode()

    async def frame(self) -> tuple[int, bytes]:
        """The opcode and the payload of a frame, which has to be whole and without a mask."""
        first, length = await patiently(self.reader.readexactly(2))
        assert first & 0x80
        if length == 126:
            (length,) = struct.unpack("!H", await patiently(self.reader.readexactly(2)))
        elif length == 127:
            (length,) = struct.unpack("!Q", await patiently(self.reader.readexactly(8)))
        return first & 0x0F, await patiently(self.reader.readexactly(length))

    async def close_code(self) -> int:
        """Of the next close frame; what comes before is passed over."""
        while True:
            opcode, payload = await self.frame()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")

    async def ended(self) -> bytes:
        """What comes until the connection is over, in whatever way."""
        try:
            rest: bytes = await patiently(self.reader.read())
        except ConnectionError:
            return b""
        return rest

    async def leave(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bool = True, reserved: int = 0) -> bytes:
    """A frame as a client sends it."""
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    size = len(payload)
    flag = 0x80 if mask else 0
    if size < 126:
        head = bytes((first, flag | size))
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, flag | 126, size)
    else:
        head = struct.pack("!BBQ", first, flag | 127, size)
    if not mask:
        return head + payload
    key = b"\x37\xfa\x21\x3d"  # any will do, and tests are the same each time
    spread = (key * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(spread, "big")
    return head + key + masked.to_bytes(size, "big")


def request(path: str = PATH, **fields: str | None) -> bytes:
    """A good handshake; a field (its dashes written `_`) replaces a header, None leaves it out.

    So do `method` and `version` with those of the first line.
    """
    method, version = fields.pop("method", "GET"), fields.pop("version", "HTTP/1.1")
    headers: dict[str, str | None] = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Protocol": f"{JSON}, {MSGPACK}",
    }
    headers.update({name.replace("_", "-"): value for name, value in fields.items()})
    lines = [
        f"{method} {path} {version}",
        *(f"{name}: {value}" for name, value in headers.items() if value is not None),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


class Listening:
    """A listener that is up, and the handlers of its connections."""

    def __init__(self, listener: Listener, handlers: RecordingHandlers, context: ssl.SSLContext | None) -> None:
        self.listener = listener
        self.handlers = handlers
        self._context = context
        self._peers: list[RawPeer] = []

    async def raw(self, *, receive_bytes: int | None = None) -> RawPeer:
        """A connection that has said nothing. `receive_bytes` is what the system takes that it does not read."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.listener.port))
        except ConnectionError:
            sock.close()
            raise
        name = None if self._context is None else "localhost"
        opened = asyncio.open_connection(sock=sock, ssl=self._context, server_hostname=name, limit=1 << 16)
        reader, writer = await patiently(opened)
        self._peers.append(RawPeer(reader, writer))
        return self._peers[-1]

    async def peer(self, path: str = PATH, *, receive_bytes: int | None = None, **fields: str | None) -> RawPeer:
        """A connection that is a WebSocket."""
        peer = await self.raw(receive_bytes=receive_bytes)
        peer.write(request(path, **fields))
        status, _ = await peer.head()
        assert status == 101
        return peer

    async def ask(self, sent: bytes) -> tuple[int, str]:
        """The answer to a request that gets no WebSocket."""
        peer = await self.raw()
        peer.write(sent)
        return await peer.answer()

    async def end(self) -> None:
        await self.listener.stop()
        for handler in self.handlers.everybody:
            handler.socket.close(1001)
        for peer in self._peers:
            await peer.leave()
        async with asyncio.timeout(PATIENCE):
            while self.listener.connections:
                await asyncio.sleep(0.001)


def plain(request: HttpRequest) -> HttpAnswer | None:
    """What plain requests get in these tests."""
    path = request.path
    if path == "/fails":
        raise RuntimeError("on purpose")
    if path == "/readyz":
        return HttpAnswer(status=503, content_type="text/plain", body=b"not yet\n")
    if path == "/healthz":
        return HttpAnswer(status=200, content_type="text/plain", body=b"alive\n")
    return None


@asynccontextmanager
async def listening(
    make: Make,
    *,
    client_context: ssl.SSLContext | None = None,
    http: Http = plain,
    routing: Routing | None = None,
    **settings: Any,
) -> AsyncIterator[Listening]:
    listener = make(ListenerSettings(host="127.0.0.1", port=0, **settings))
    handlers = RecordingHandlers()
    await listener.start(handlers, http, routing=routing)
    it = Listening(listener, handlers, client_context)
    try:
        yield it
    finally:
        await it.end()


def certificate(folder: Path, host: str = "localhost") -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's context that trust a new certificate for the host."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    names = x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    format_ = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, format_, serialization.NoEncryption()))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, private)
    return server, ssl.create_default_context(cafile=str(pem))


LISTENERS: list[Make] = [WebsocketsListener, PicowsListener]
