"""A session on the JSON subprotocol, message by message, beside an HTTP world."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from http_worlds import PATIENCE, HttpWorld
from stemmadb.protocol import identity
from stemmadb.protocol.model.access import delegation
from stemmadb.protocol.model.access.delegation import Delegation
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.protocol.wire.version import JSON

WRITES = frozenset({"branch.create", "branch.delete", "tag.create", "tag.delete", "merge", "revert", "revoke"})


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class JsonSocket:
    """One session; frames that come meanwhile are skipped."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._last = self._local = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, world: HttpWorld, *, role: Any, prefix: str) -> AsyncIterator[JsonSocket]:
        """The owner, under a delegation to itself of this role and prefix."""
        owner = world.db.identity
        async with connect(f"{world.url}{world.path}", subprotocols=[JSON]) as connection:  # type: ignore[list-item]
            hello = json.loads(await connection.recv())
            session = os.urandom(16)
            payload = identity.session_open_payload(
                server=hello["server"],
                challenge=base64.b64decode(hello["challenge"]),
                space=world.did,
                principal=owner.did,
                session=session,
            )
            now = int(time.time() * 1_000)
            token = delegation.issue(
                Delegation(
                    issuer=owner.did,
                    audience=owner.did,
                    space=world.did,
                    role=role,
                    prefixes=(prefix,),
                    not_before=TimeMs(now - 1_000),
                    expires=TimeMs(now + 3_600_000),
                    nonce=os.urandom(16),
                ),
                owner.sign,
            )
            opening = {
                "type": "session.open",
                "principal": owner.did,
                "session": text(session),
                "signature": text(owner.sign(payload)),
                "delegations": [text(token)],
            }
            await connection.send(json.dumps(opening))
            yield cls(connection)

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, `ok` or `error`."""
        self._last += 1
        own = {"operation": text(os.urandom(16)), "nonce": text(os.urandom(16))} if message["type"] in WRITES else {}
        await self._connection.send(json.dumps(message | own | {"id": self._last}))
        async with asyncio.timeout(PATIENCE):
            while True:
                answer: dict[str, Any] = json.loads(await self._connection.recv())
                if answer.get("id") == self._last and answer["type"] in ("ok", "error"):
                    return answer

    async def commit(self, content: dict[str, Any]) -> str:
        """`accepted`, or the code of the verdict against it, or of the end of the session."""
        self._local += 1
        message = {"type": "commit", "local": self._local, "nonce": text(os.urandom(16)), "content": content}
        await self._connection.send(json.dumps(message))
        async with asyncio.timeout(PATIENCE):
            while True:
                came: dict[str, Any] = json.loads(await self._connection.recv())
                if came["type"] == "goodbye":
                    return str(came["code"])
                for verdict in came.get("verdicts", ()):
                    if verdict["local"] == self._local:
                        return str(verdict.get("code", "accepted"))
