"""After an erasure nobody can test a guess: not of a key and a value together, nor with all files of the server.

The guesser knows the rules, the log, the principal, and short lists that contain the right key and the right value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from blake3 import blake3

from http_worlds import HttpWorld, http_world
from stemmadb.protocol.model.commit.request import Content, Operation, digest_request
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.wire.codec.json_form import form_of, without_defaults
from stemmadb.protocol.wire.messages.fields import RandomId
from stemmadb.server.http.writes import commits, identities
from stemmadb.server.http.writes.identities import TAG_NONCE, TAG_SESSION, WriteIdentity
from stemmadb.server.storage.port import HttpKey

ID: Final = "urn:patient:1"
VALUE: Final = {"pin": 471}
KEYS: Final = tuple(f"order-{number}" for number in range(200))
VALUES: Final = tuple({"pin": number} for number in range(1_000))
KEY: Final = KEYS[42]
SECRET_BYTES: Final = 32
NO_LIMITS: Final[Any] = None


class LogLine(NamedTuple):
    """What a reader of the log sees of a commit whose value was erased."""

    author: Did
    session: bytes
    request: bytes


def digest(nonce: bytes, value: object) -> bytes:
    operation = Operation(op="set", id=EntityId(ID), body=encode(value), blind=True)
    return digest_request(nonce, encode(without_defaults(Content(operations=(operation,)))))


def keyed_nonce(secret: bytes, author: Did, key: str) -> bytes:
    return blake3(encode((TAG_NONCE, author, key)), key=secret).digest()[:16]


def plain_nonce(author: Did, key: str) -> bytes:
    return blake3(encode((TAG_NONCE, author, key))).digest()[:16]


def guessed_keys(line: LogLine) -> list[str]:
    """The session follows from the key alone, so a key that can be guessed is no secret."""
    found = (key for key in KEYS if blake3(encode((TAG_SESSION, line.author, key))).digest()[:16] == line.session)
    return list(found)


def nonces(line: LogLine, key: str, space: Did) -> Iterator[bytes]:
    """What the nonce would be, had it been made of what everybody knows."""
    yield plain_nonce(line.author, key)
    yield bytes(16)
    yield line.session
    known = (bytes(SECRET_BYTES), *(blake3(text.encode()).digest() for text in (space, line.author, key)))
    yield from (keyed_nonce(secret, line.author, key) for secret in known)


def guessed_values(line: LogLine, tried: Iterable[bytes]) -> list[object]:
    return [value for nonce in tried for value in VALUES if digest(nonce, value) == line.request]


def secrets_in(folder: Path, line: LogLine) -> set[bytes]:
    """Any 32 bytes of any file that are the secret which this commit was made with: the right value is known here."""
    found = set[bytes]()
    for file in (one for one in folder.rglob("*") if one.is_file()):
        data = file.read_bytes()
        windows = {data[at : at + SECRET_BYTES] for at in range(len(data) - SECRET_BYTES + 1)}
        for window in windows:
            if digest(keyed_nonce(window, line.author, KEY), VALUE) == line.request:
                found.add(window)
    return found


async def line_of(world: HttpWorld, version: int) -> LogLine:
    (entry,) = (await world.get(f"/log?version={version}&limit=1&with_facts=true")).json()["entries"]
    session: bytes = form_of(RandomId).read(entry["session"], "", NO_LIMITS)
    return LogLine(entry["author"], session, reference.read(entry["request"]))


async def written_and_erased(world: HttpWorld, before: Callable[[LogLine], None]) -> LogLine:
    """The line of a commit with a key, whose value was erased; `before` sees it while the value is there."""
    version = (await world.put(ID, VALUE, Idempotency_Key=KEY)).json()["version"]
    assert (await world.put(ID, VALUE, Idempotency_Key=KEY)).json()["version"] == version
    before(await line_of(world, version))
    await world.put(ID, {"pin": None})
    await world.space.erase(ID, versions=[version])
    assert (await world.get(f"/entity?id={ID}&version={version}")).status == 410
    return await line_of(world, version)


@pytest.mark.rule("HTTP-9", "ERASE-1")
async def test_no_guess_of_a_key_and_a_value_can_be_tested_after_an_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = list[HttpKey]()
    really = commits.space_key

    async def space_key(call: Any) -> HttpKey:
        secrets.append(await really(call))
        return secrets[-1]

    monkeypatch.setattr(commits, "space_key", space_key)
    kept = set[bytes]()
    async with http_world(tmp_path) as world:
        line = await written_and_erased(world, lambda line: kept.update(secrets_in(world.data, line)))
        secret = secrets[0].key
        assert kept == {secret}, "while the value is there, a search of all files finds the secret"
        assert guessed_keys(line) == [KEY]
        assert guessed_values(line, nonces(line, KEY, world.did)) == []
        again = await world.put("urn:other:1", 1, Idempotency_Key="another")
        assert (again.status, secrets[-1].key == secret) == (200, False), "an erasure replaces the secret"
        assert guessed_values(line, [keyed_nonce(secrets[-1].key, line.author, KEY)]) == []
        assert secrets_in(world.data, line) == set()
    assert secrets_in(world.data, line) == set()
    assert guessed_values(line, [keyed_nonce(secret, line.author, KEY)]) == [VALUE], "who had the secret could tell"


@pytest.mark.rule("HTTP-9")
async def test_the_guesser_would_find_a_value_whose_nonce_were_made_without_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows that the test before this one can fail."""
    really = identities.keyed

    def keyed(principal: Did, key: str, space_key: bytes, **how: Any) -> WriteIdentity:
        return really(principal, key, space_key, **how)._replace(nonce=plain_nonce(principal, key))

    monkeypatch.setattr(commits, "keyed", keyed)
    async with http_world(tmp_path) as world:
        line = await written_and_erased(world, lambda _: None)
        (key,) = guessed_keys(line)
        assert guessed_values(line, nonces(line, key, world.did)) == [VALUE]
