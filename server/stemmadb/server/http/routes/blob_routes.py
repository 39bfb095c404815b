"""Blobs: stored by name as they come, read whole or in ranges, never run as a page (HTTP-11)."""

from __future__ import annotations

import re
from typing import Final

from blake3 import blake3

from stemmadb.protocol.errors import BlobMismatch, Malformed, Unavailable
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Hash
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd, BlobOffset, BlobPart, BlobRead
from stemmadb.server.http.base.error_table import HttpProblem
from stemmadb.server.http.base.parameters import Params
from stemmadb.server.http.base.replies import PRIVATE, HttpReply, ReplyWriter, part_reply
from stemmadb.server.http.callers.calls import BodyReader, SpaceCall

ANY_CONTENT: Final = "application/octet-stream"
SANDBOX: Final = (
    ("Content-Disposition", "attachment"),
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
    ("Accept-Ranges", "bytes"),
)
"""A stored page must not run on our origin."""
RESTARTED: Final = "The upload of this blob was begun anew meanwhile. Send the request again."
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_CONTENT_TYPE: Final = re.compile(r"[!-~][ -~]{0,253}")


class BlobParams(Params, frozen=True, kw_only=True):
    """None; the name of the blob stands in the path."""


async def get_blob(call: SpaceCall[BlobParams], name: str) -> HttpReply:
    """The bytes of a blob, or the range that is asked for."""
    blob = reference.read(name)
    first: BlobPart = await call.ask(BlobRead(id=1, blob=blob, offset=0, length=1))
    headers = (PRIVATE, *SANDBOX, ("ETag", f'"{name}"'))
    if f'"{name}"' in [one.strip() for text in call.head.all("if-none-match") for one in text.split(",")]:
        return HttpReply(status=304, headers=headers)
    wanted = _range(call.head.one("range"), first.size, name, call.head.one("if-range"))
    begin, end = wanted or (0, first.size)
    content_range = (("Content-Range", f"bytes {begin}-{end - 1}/{first.size}"),) if wanted else ()

    async def write(writer: ReplyWriter) -> None:
        offset = begin
        while offset < end:
            part: BlobPart = await call.ask(BlobRead(id=1, blob=blob, offset=offset, length=end - offset))
            await writer.write(part.data)
            offset += len(part.data)

    return HttpReply(
        status=206 if wanted else 200,
        content_type=first.content_type if _CONTENT_TYPE.fullmatch(first.content_type) else ANY_CONTENT,
        headers=(*headers, *content_range),
        stream=write,
        length=end - begin,
    )


async def put_blob(call: SpaceCall[BlobParams], name: str) -> HttpReply:
    """Stores the body under its name, piece by piece; an upload that broke off goes on where it stopped."""
    blob, body = reference.read(name), call.body
    at: BlobOffset = await call.ask(
        BlobBegin(id=1, blob=blob, size=body.length, content_type=_content_type(call.head.one("content-type")))
    )
    if not at.stored:
        await _upload(call, blob, body, at.offset)
    return part_reply(await call.ask(BlobEnd(id=1, blob=blob)), headers=(("ETag", f'"{name}"'),))


async def post_blob(call: SpaceCall[BlobParams], _: str) -> HttpReply:
    """Stores a body that fits into one message, and says under which name."""
    data = await _whole(call.body)
    blob = Hash(blake3(data).digest())
    content_type = _content_type(call.head.one("content-type"))
    at: BlobOffset = await call.ask(BlobBegin(id=1, blob=blob, size=len(data), content_type=content_type))
    offset = at.offset
    while offset < len(data):
        offset = await _send(call, blob, offset, data[offset : offset + call.limits.blob_chunk_bytes_max])
    name = reference.write(blob)
    return part_reply(await call.ask(BlobEnd(id=1, blob=blob)), status=201, headers=(("ETag", f'"{name}"'),))


async def _upload(call: SpaceCall[BlobParams], blob: Hash, body: BodyReader, offset: int) -> None:
    """What the server has already is read over, whether it was sent before or is sent beside this request."""
    begin, waiting = 0, bytearray()
    size = call.limits.blob_chunk_bytes_max
    while data := await body.chunk():
        waiting += data
        while True:
            over = min(offset - begin, len(waiting))
            del waiting[:over]
            begin += over
            if begin < offset or len(waiting) < size:
                break
            offset = await _send(call, blob, begin, bytes(waiting[:size]))
    if begin == offset and waiting:
        offset = await _send(call, blob, begin, bytes(waiting))
    if begin + len(waiting) < body.length:
        raise BlobMismatch(blob=reference.write(blob), why="the body ended too early")


async def _send(call: SpaceCall[BlobParams], blob: Hash, begin: int, data: bytes) -> int:
    """Where the upload is then: further than these bytes if another request of the caller sends the same blob."""
    try:
        at: BlobOffset = await call.ask(BlobChunk(id=1, blob=blob, offset=begin, data=data))
    except Malformed as error:
        found = error.facts.get("offset")
        if found is None:
            raise
        if found < begin:
            raise Unavailable(RESTARTED) from None
        return int(found)
    return at.offset


async def _whole(body: BodyReader) -> bytes:
    parts = []
    while data := await body.chunk():
        parts.append(data)
    return b"".join(parts)


def _content_type(given: str | None) -> str:
    return given if given is not None and _CONTENT_TYPE.fullmatch(given) else ANY_CONTENT


def _range(text: str | None, size: int, name: str, if_range: str | None) -> tuple[int, int] | None:
    """The bytes that are wanted; None for all. Several ranges, and those of another version, get all."""
    if text is None or (if_range is not None and if_range != f'"{name}"'):
        return None
    found = _RANGE.fullmatch(text.replace(" ", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        begin, end = max(0, size - int(found[2])), size
    else:
        begin, end = int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)
    if begin >= end or begin >= size:
        raise HttpProblem(416, "The blob has no such range.", (("Content-Range", f"bytes */{size}"),))
    return begin, end
