"""What a message of a client means to the server."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import Local
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.commit import CommitMessage
from stemmadb.protocol.wire.messages.session import SessionOpen


class RefusedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that could not be taken, and the error to send back. The connection goes on.

    `local`, with `session` if it is an older one, is given where the message was a commit: no verdict will follow,
    and the client is told which one it was.
    """

    error: StemmaError
    reply: Data
    id: int | None = None
    local: Local | None = None
    session: bytes | None = None


ServerEvent: TypeAlias = SessionOpen | CommitMessage | Request | RefusedMessage | Closed
