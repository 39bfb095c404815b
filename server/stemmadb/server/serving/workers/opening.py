"""What a connection between two workers begins with, and how to open one.

    32 bytes    the secret that the parent gave all workers at their start
    4 bytes     the length of the rest, big-endian
    msgpack     `Opening`; where a socket is passed on, its descriptor comes with the first byte (SCM_RIGHTS)

After it, the bytes of a relay go both ways, or the answer to a question comes, with its length in 4 bytes before it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, Literal, TypeAlias

import msgspec

SECRET_BYTES: Final = 32
OPENING_BYTES_MAX: Final = 1024 * 1024
"""Of one opening: the head of a request, and what a transport may have read behind it."""
CONNECT_SECONDS: Final = 1.0
"""How long a worker that does not take a connection is tried."""
PAUSE_SECONDS: Final = 0.005
LENGTH: Final = struct.Struct("!I")
HEAD_BYTES: Final = SECRET_BYTES + LENGTH.size

Kind: TypeAlias = Literal["socket", "relay", "question"]


class Opening(msgspec.Struct, frozen=True, array_like=True):
    """What the connection is for."""

    kind: Kind
    address: str
    """The client's, for `socket` and `relay`."""
    data: bytes
    """What the client has sent so far, or the question."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Opening)


def encode(secret: bytes, opening: Opening) -> bytes:
    body = _encoder.encode(opening)
    return secret + LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Opening:
    """`msgspec.DecodeError` if it is none."""
    return _decoder.decode(body)


async def connect(path: str) -> socket.socket:
    """A connection to a worker; `OSError` if it is not there, or takes none for a second.

    A Unix socket connects at once or not at all: `EAGAIN` says that too many wait to be accepted.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + CONNECT_SECONDS
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            sock.connect(path)
        except BlockingIOError:
            sock.close()
            if loop.time() >= until:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        except BaseException:
            sock.close()
            raise
        else:
            return sock
