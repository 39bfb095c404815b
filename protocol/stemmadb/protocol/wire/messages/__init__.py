"""Every message of the protocol, by direction (WIRE-1)."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from stemmadb.protocol.wire.messages.access import AclRequest, RevokeRequest
from stemmadb.protocol.wire.messages.base import Message, Part, Request
from stemmadb.protocol.wire.messages.blobs import BlobBegin, BlobChunk, BlobEnd, BlobRead
from stemmadb.protocol.wire.messages.commit import CommitMessage, Deferred
from stemmadb.protocol.wire.messages.overview import CountRequest, PrefixesRequest
from stemmadb.protocol.wire.messages.reading import (
    BlameRequest,
    DiffRequest,
    HistogramRequest,
    HistoryRequest,
    LogRequest,
    QueryRequest,
    UnwatchRequest,
    WatchRequest,
)
from stemmadb.protocol.wire.messages.session import ErrorMessage, Goodbye, Hello, Ok, Ping, SessionOpen
from stemmadb.protocol.wire.messages.structure import (
    CompactRequest,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    EraseRequest,
    ListBranches,
    ListTags,
    MergeRequest,
    RevertRequest,
)
from stemmadb.protocol.wire.messages.sync import Sync

ClientMessage: TypeAlias = (
    SessionOpen
    | CommitMessage
    | QueryRequest
    | WatchRequest
    | UnwatchRequest
    | HistoryRequest
    | LogRequest
    | HistogramRequest
    | DiffRequest
    | BlameRequest
    | CountRequest
    | PrefixesRequest
    | CreateBranch
    | DeleteBranch
    | ListBranches
    | CreateTag
    | DeleteTag
    | ListTags
    | MergeRequest
    | RevertRequest
    | EraseRequest
    | CompactRequest
    | BlobBegin
    | BlobChunk
    | BlobEnd
    | BlobRead
    | AclRequest
    | RevokeRequest
    | Ping
)
"""What a client sends and a server reads."""

ServerMessage: TypeAlias = Hello | Sync | Deferred | Ok | ErrorMessage | Goodbye
"""What a server sends and a client reads."""

CLIENT_MESSAGES: Final[tuple[type[Message], ...]] = get_args(ClientMessage)
SERVER_MESSAGES: Final[tuple[type[Message], ...]] = get_args(ServerMessage)
REQUESTS: Final[tuple[type[Request], ...]] = tuple(cls for cls in CLIENT_MESSAGES if issubclass(cls, Request))
ANSWERS: Final[tuple[type[Part], ...]] = tuple(dict.fromkeys(cls.answer for cls in REQUESTS))


def type_of(message: Message | type[Message]) -> str:
    """The value of its field `type`."""
    tag = message.__struct_config__.tag
    assert isinstance(tag, str)
    return tag
