"""Blobs in chunks: an upload that can go on where it stopped, and reading (BLOB-1)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from stemmadb.protocol.wire.messages.base import Part, Request
from stemmadb.protocol.wire.messages.fields import Count, WireHash

ContentType = Annotated[str, Meta(max_length=255)]


class BlobOffset(Part, frozen=True, kw_only=True):
    """How many bytes the server has, from the first on; `stored` when the blob is there and verified."""

    offset: Count
    stored: bool = False


class BlobBegin(Request, frozen=True, kw_only=True, tag="blob.begin"):
    """Begins an upload, or asks where it stopped."""

    answer: ClassVar[type[Part]] = BlobOffset
    blob: WireHash
    size: Count
    content_type: ContentType = "application/octet-stream"


class BlobChunk(Request, frozen=True, kw_only=True, tag="blob.chunk"):
    """The bytes at `offset`, which is where the server said it is."""

    answer: ClassVar[type[Part]] = BlobOffset
    blob: WireHash
    offset: Count
    data: bytes


class BlobStored(Part, frozen=True, kw_only=True):
    """The blob is durable and its bytes give its name."""

    blob: WireHash
    size: Count
    content_type: ContentType


class BlobEnd(Request, frozen=True, kw_only=True, tag="blob.end"):
    """All bytes were sent: verify and keep."""

    answer: ClassVar[type[Part]] = BlobStored
    blob: WireHash


class BlobPart(Part, frozen=True, kw_only=True):
    """Bytes of a blob from `offset`; the last part ends at `size`."""

    blob: WireHash
    size: Count
    content_type: ContentType
    offset: Count
    data: bytes


class BlobRead(Request, frozen=True, kw_only=True, tag="blob.read"):
    """Asks for at most `length` bytes from `offset`, within the bound of a chunk."""

    answer: ClassVar[type[Part]] = BlobPart
    blob: WireHash
    offset: Count = 0
    length: Count | None = None
