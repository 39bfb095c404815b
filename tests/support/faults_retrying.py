"""A client that sends every commit several times, on one connection after the other, and hears its verdict once.

It is written from the specification alone, since the SDK sends again only what it must.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final

from websockets.exceptions import WebSocketException

from check_log import Acknowledged
from check_reads import Told
from faults_lists import Recorded
from list_history import Append, Transaction
from plain_client import Gone, PlainClient
from plain_content import patch_
from plain_holding import Fields

AGAIN_SECONDS: Final = 0.05
LOST: Final = (Gone, OSError, TimeoutError, WebSocketException)
"""What it meets when the connection, or the server, is gone."""


class Retrier:
    """One commit at a time, each sent up to four times."""

    def __init__(
        self, name: str, client: PlainClient, recorded: Recorded, *, seed: int, worked: Callable[[], None]
    ) -> None:
        self._name, self._client, self._recorded = name, client, recorded
        self._chance = random.Random(seed)
        self._worked = worked

    async def write(self, commits: int) -> None:
        """Until `commits` are acknowledged to all writers together, and its own is decided."""
        await self._opened()
        while len(self._recorded.acknowledged) < commits:
            await self._one()
        await self._client.close()

    async def _opened(self) -> None:
        """Also while the server is killed, and stays away for a while."""
        while True:
            try:
                await self._client.open()
                return
            except LOST:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _one(self) -> None:
        recorded = self._recorded
        recorded.made += 1
        key, element = self._chance.choice(recorded.keys()), 2 * recorded.made
        mark, began = f"{self._name}-{recorded.made}", time.monotonic()
        verdict = await self._decided(key, element, mark)
        assert verdict["verdict"] == "accepted", verdict
        now, steps = time.monotonic(), (Append(key, element),)
        recorded.transactions.append(Transaction(self._name, began, now, "ok", steps, mark))
        recorded.acknowledged.append(Acknowledged(mark, verdict["version"]))
        recorded.told.append(Told(now, verdict["version"]))
        self._worked()

    async def _decided(self, key: str, element: int, mark: str) -> Fields:
        client = self._client
        local = client.last_local + 1
        try:
            await client.commit(
                patch_(key, {"op": "add", "path": "/-", "value": element}), note={"message": mark}, local=local
            )
            for _ in range(self._chance.randint(0, 3)):
                await self._send_again()
        except LOST:
            await self._come_back()
        while True:
            try:
                return await client.verdict(local)
            except LOST:
                await self._come_back()

    async def _send_again(self) -> None:
        """On the same connection, or on the next one while the server may still be busy with the first."""
        if self._chance.random() < 0.3:
            self._client.abort()
            await self._client.resume()
        else:
            await self._client.send_again()

    async def _come_back(self) -> None:
        while True:
            try:
                await self._client.resume()
            except LOST:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return
