"""Who serves a space: the spaces of a path, the workers of a directory, and one question for a turn of the loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping

import pytest
from blake3 import blake3

from space import SPACE
from stemmadb.protocol.identity import did_of
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.listeners.http import closing, read_head
from stemmadb.server.serving.ownership.port import SERVED_HERE, Owner, ServedBy, ServedHere
from stemmadb.server.serving.ownership.routing import Routing, space_of
from stemmadb.server.serving.ownership.single_process import SingleProcess
from stemmadb.server.serving.ownership.worker_ownership import WorkerOwnership, worker_of


def spaces(count: int) -> list[Did]:
    return [did_of(blake3(bytes([number % 256, number // 256])).digest(32)) for number in range(count)]


@pytest.mark.rule("STORE-4")
def test_the_worker_of_a_space_is_the_one_that_the_rule_names() -> None:
    for space in spaces(50):
        first = int(blake3(space.encode()).hexdigest()[:16], 16)
        for workers in (1, 2, 3, 7):
            assert worker_of(space, workers) == first % workers
    pinned = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
    assert [worker_of(Did(pinned), workers) for workers in (1, 2, 3, 4)] == [0, 1, 1, 3]


def test_spaces_are_divided_evenly() -> None:
    found = Counter(worker_of(space, 4) for space in spaces(1_000))
    assert all(200 <= found[number] <= 300 for number in range(4))


def test_each_space_is_served_by_exactly_one_worker() -> None:
    workers = [WorkerOwnership(number, ["a", "b", "c"]) for number in range(3)]
    for space in spaces(100):
        owners = [worker.known(space) for worker in workers]
        assert owners.count(SERVED_HERE) == 1
        here = owners.index(SERVED_HERE)
        others = [owner for owner in owners if owner != SERVED_HERE]
        assert others == [ServedBy("abc"[here])] * 2


@pytest.mark.parametrize(
    ("path", "space"),
    [
        (f"/v1/spaces/{SPACE}", SPACE),
        (f"/v1/spaces/{SPACE.replace(':', '%3A')}", SPACE),
        (f"/v1/spaces/{SPACE}/entity", SPACE),
        (f"/v1/spaces/{SPACE}/", SPACE),
        (f"/v1/spaces/{SPACE}/blobs/x%3Ay", SPACE),
        ("/v1/spaces", None),
        ("/v1/spaces/", None),
        ("/v1/spaces/did:key:zzz/entity", None),
        ("/v1/me", None),
        ("/metrics", None),
        (f"/console/v1/spaces/{SPACE}", None),
    ],
)
def test_the_space_of_a_path_is_the_one_it_names(path: str, space: Did | None) -> None:
    assert space_of(path) == space


class Asked:
    """An ownership that knows nothing by itself."""

    is_single = False

    def __init__(self, owners: Mapping[Did, Owner]) -> None:
        self.owners = owners
        self.calls: list[set[Did]] = []

    def known(self, space: Did) -> Owner | None:  # noqa: ARG002
        return None

    async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
        self.calls.append(set(spaces))
        await asyncio.sleep(0)
        if not self.owners:
            raise OSError("the database does not answer")
        return self.owners

    def is_alive(self) -> bool:
        return True


class Slow(Asked):
    """Answers when a test says so."""

    def __init__(self, owners: Mapping[Did, Owner]) -> None:
        super().__init__(owners)
        self.may_answer = asyncio.Event()

    async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
        owners = await super().claim(spaces)
        await self.may_answer.wait()
        return owners


async def come(found: list[Owner | None], count: int) -> None:
    """Returns once so many were answered."""
    async with asyncio.timeout(30):
        while len(found) < count:
            await asyncio.sleep(0)


async def test_requests_of_one_turn_share_one_question() -> None:
    one, two, three = spaces(3)
    ownership = Asked({one: SERVED_HERE, two: ServedBy("there")})
    routing = Routing(ownership)
    found: list[Owner | None] = []
    for space in (one, two, one, three):
        routing.find(space, found.append)
    await come(found, 4)
    assert ownership.calls == [{one, two, three}]
    assert sorted(map(repr, found)) == sorted(map(repr, [SERVED_HERE, SERVED_HERE, ServedBy("there"), None]))
    routing.find(two, found.append)
    await come(found, 5)
    assert ownership.calls[1:] == [{two}]


async def test_a_request_joins_the_question_that_is_under_way_for_its_space() -> None:
    one, two = spaces(2)
    ownership = Slow({one: SERVED_HERE, two: SERVED_HERE})
    routing = Routing(ownership)
    found: list[Owner | None] = []
    for space in (one, one, two, one):
        routing.find(space, found.append)
        for _ in range(3):
            await asyncio.sleep(0)
    assert ownership.calls == [{one}, {two}]
    assert not found
    ownership.may_answer.set()
    await come(found, 4)
    assert found == [SERVED_HERE] * 4
    routing.find(one, found.append)  # what was answered is asked anew
    await come(found, 5)
    assert ownership.calls[2:] == [{one}]


async def test_requests_that_joined_a_question_that_fails_get_nobody_and_the_next_one_asks_anew() -> None:
    class Failing(Slow):
        async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
            await super().claim(spaces)
            raise OSError("the database does not answer")

    ownership = Failing({SPACE: SERVED_HERE})
    routing = Routing(ownership)
    found: list[Owner | None] = []
    for _ in range(2):
        routing.find(SPACE, found.append)
        for _ in range(3):
            await asyncio.sleep(0)
    assert (ownership.calls, found) == ([{SPACE}], [])
    ownership.may_answer.set()
    await come(found, 2)
    routing.find(SPACE, found.append)
    await come(found, 3)
    assert (ownership.calls, found) == ([{SPACE}] * 2, [None] * 3)


async def test_a_question_that_fails_is_answered_with_nobody() -> None:
    found: list[Owner | None] = []
    Routing(Asked({})).find(SPACE, found.append)
    await come(found, 1)
    assert found == [None]


async def test_a_single_process_serves_everything_and_asks_nobody() -> None:
    ownership = SingleProcess()
    found: list[Owner | None] = []
    Routing().find(SPACE, found.append)
    assert found == [ServedHere()]
    assert await ownership.claim([SPACE]) == {SPACE: SERVED_HERE}
    assert ownership.is_single
    assert ownership.is_alive()


def test_a_head_is_changed_so_that_its_connection_ends() -> None:
    head = b"GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nkeep-alive: 5\r\nA: b\r\n\r\n"
    request = read_head(closing(head))
    assert (request.method, request.target, request.version) == ("GET", "/v1/me", "HTTP/1.1")
    assert request.headers == {"host": ["x"], "a": ["b"], "connection": ["close"]}
