"""The store: spaces opened when asked for, closed when nobody uses them, one log at a time for each."""

from __future__ import annotations

import asyncio

import pytest

from engines import Clock, Held, LonelyStorage, Wandering, inline_executors, turns
from space import counting_salts
from stemmadb.protocol import errors
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.engine.base.executors import Executors, Inline
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.engine.store import Store
from stemmadb.server.storage.memory import MemoryLog
from stemmadb.server.storage.port import DiskFull, NoDescriptors, StorageFailed, Worker


def did(number: int) -> Did:
    return Did(f"did:key:z{number}")


class CountingStorage(LonelyStorage):
    """Refuses to open a log twice at a time, as an embedded database would."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: dict[Did, MemoryLog] = {}
        self.opens = 0

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> MemoryLog:
        before = self.opened.get(space)
        assert before is None or not before._usable, "opened twice"
        self.opens += 1
        self.opened[space] = super().open(space, create=create, workers=workers)
        return self.opened[space]

    def count(self) -> int:
        return sum(log._usable for log in self.opened.values())


def store_on(storage: LonelyStorage, workers: Executors | None = None, **sizes: int) -> Store:
    both = workers or inline_executors()
    return Store(storage, now=Clock(), salts=counting_salts(), workers=both, settings=Settings(ahead_min=1, **sizes))


async def test_a_space_is_made_only_if_that_was_asked_for() -> None:
    store = store_on(LonelyStorage())
    with pytest.raises(errors.UnknownSpace):
        await store.space(did(1))
    assert (await store.space(did(1), create=True)).did == did(1)
    assert (await store.space(did(1))) is await store.space(did(1), create=True)
    await store.close()


async def test_many_who_ask_at_once_get_one_space() -> None:
    storage = CountingStorage()
    store = store_on(storage, Executors(Wandering(1), Wandering(2)))
    asked = [store.space(did(1), create=number > 1) for number in range(5)]
    spaces = await asyncio.gather(*asked, return_exceptions=True)
    # Who must not make it and came first finds none; all others share one.
    assert isinstance(spaces[0], errors.UnknownSpace)
    made = [space for space in spaces if isinstance(space, OpenSpace)]
    assert len(made) >= 3
    assert len(set(map(id, made))) == 1
    assert storage.count() == 1
    await store.close()
    assert storage.count() == 0


async def test_one_who_gives_up_while_a_space_is_opened_leaves_it_to_the_others() -> None:
    storage = CountingStorage()
    store = store_on(storage, Executors(Wandering(1, 40), Wandering(2)))
    first = asyncio.ensure_future(store.space(did(1), create=True))
    second = asyncio.ensure_future(store.space(did(1), create=True))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).did == did(1)
    assert storage.opens == 1
    gone = asyncio.ensure_future(store.space(did(2)))
    await asyncio.sleep(0)
    gone.cancel()
    await store.close()


async def test_the_space_that_was_not_asked_for_for_longest_is_closed() -> None:
    storage = CountingStorage()
    store = store_on(storage, open_spaces_max=2)
    first = await store.space(did(1), create=True)
    second = await store.space(did(2), create=True)
    await store.space(did(1))
    await store.space(did(3), create=True)
    await turns()
    assert storage.count() == 2
    with pytest.raises(errors.Unavailable):
        await second.read(lambda reader: reader.tip())
    assert (await first.read(lambda reader: reader.tip())).version == 0
    assert await store.space(did(2)) is not second
    await store.close()


async def test_a_space_in_use_stays_open() -> None:
    storage = CountingStorage()
    store = store_on(storage, open_spaces_max=1)
    async with store.lease(did(1), create=True) as leased:
        subscribed = await store.space(did(2), create=True)
        leave = subscribed.subscribe(lambda _: None)
        await store.space(did(3), create=True)
        await store.space(did(4), create=True)
        await turns()
        assert storage.count() == 3
        assert await store.space(did(1)) is leased
        assert await store.space(did(2)) is subscribed
    leave()
    await store.space(did(5), create=True)
    await turns()
    assert storage.count() == 1
    await store.close()


async def test_a_space_that_is_being_closed_is_opened_again_only_after_that() -> None:
    storage = CountingStorage()
    store = store_on(storage, Executors(Wandering(3, 30), Wandering(4)), open_spaces_max=1)
    for number in (1, 2, 1, 2, 1):
        space = await store.space(did(number), create=True)
        assert (await space.read(lambda reader: reader.tip())).version == 0
    await store.close()
    assert storage.count() == 0


async def test_a_space_that_is_being_opened_when_all_are_lost_is_lost_too() -> None:
    storage, opening = CountingStorage(), Held()
    store = store_on(storage, Executors(opening, Inline()))
    opening.is_held = True
    asked = asyncio.ensure_future(store.space(did(1), create=True))
    await turns()
    opening.step()  # it is open, and its opener does not know yet
    store.lose_all()
    opening.release()
    with pytest.raises(errors.Unavailable):
        await asked
    assert storage.count() == 0
    assert (await store.space(did(1), create=True)).version == 0
    await store.close()


@pytest.mark.rule("STORE-4")
@pytest.mark.parametrize("seed", range(5))
async def test_many_who_open_more_spaces_than_may_be_open_never_have_one_open_twice(seed: int) -> None:
    storage, wandering = CountingStorage(), Wandering(seed)
    store = store_on(storage, Executors(wandering, wandering), open_spaces_max=2)

    async def use(start: int) -> None:
        for step in range(8):
            async with store.lease(did((start + step * (start + 1)) % 6), create=True) as space:
                await space.read(lambda reader: reader.tip())

    await asyncio.gather(*map(use, range(6)))
    await store.close()
    assert storage.count() == 0


async def test_a_closed_store_has_closed_everything_and_opens_nothing() -> None:
    storage = CountingStorage()
    store = store_on(storage, Executors(Wandering(5, 30), Wandering(6)))
    await store.space(did(1), create=True)
    opening = asyncio.ensure_future(store.space(did(2), create=True))
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(opening, return_exceptions=True)
    assert storage.count() == 0
    with pytest.raises(errors.Unavailable):
        await store.space(did(3), create=True)
    await store.close()


async def test_a_space_that_cannot_be_opened_is_unavailable() -> None:
    storage = LonelyStorage()
    store = store_on(storage)

    def fail(_operation: str) -> None:
        raise StorageFailed

    storage.fail = fail
    with pytest.raises(errors.Unavailable):
        await store.space(did(1), create=True)
    storage.fail = lambda _operation: None
    assert (await store.space(did(1), create=True)).version == 0
    await store.close()


async def test_a_store_brings_threads_of_its_own() -> None:
    store = Store(LonelyStorage(), now=Clock(), salts=counting_salts())
    space = await store.space(did(1), create=True)
    assert (await space.read(lambda reader: reader.tip())).version == 0
    await store.close()


@pytest.mark.rule("STORE-7")
async def test_a_space_that_nobody_uses_is_closed_after_a_while() -> None:
    storage = CountingStorage()
    store = store_on(storage, space_idle_ms=1)
    await store.space(did(1), create=True)
    async with store.lease(did(2), create=True) as leased:
        while storage.count() > 1:
            await asyncio.sleep(0.001)
        assert await store.space(did(2)) is leased
    while storage.count():
        await asyncio.sleep(0.001)
    assert (await store.space(did(1))).did == did(1)
    await store.close()


class FewDescriptors(CountingStorage):
    """Has descriptors for so many logs."""

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> MemoryLog:
        if self.count() >= 3:
            raise NoDescriptors("too many open files")
        return super().open(space, create=create, workers=workers)


@pytest.mark.rule("STORE-7")
async def test_when_descriptors_run_out_unused_spaces_are_closed() -> None:
    storage = FewDescriptors()
    store = store_on(storage)
    for number in range(10):
        assert (await store.space(did(number), create=True)).did == did(number)
    async with store.lease(did(1)), store.lease(did(2)), store.lease(did(3)):
        with pytest.raises(errors.Unavailable):
            await store.space(did(4))
    assert (await store.space(did(4))).did == did(4)
    await store.close()


@pytest.mark.rule("STORE-7")
async def test_whoever_keeps_spaces_open_without_need_is_asked_to_let_them_go() -> None:
    storage = FewDescriptors()
    store = store_on(storage)
    leaves = [(await store.space(did(number), create=True)).subscribe(lambda _: None) for number in range(3)]

    def release() -> None:
        while leaves:
            leaves.pop()()

    store.release = release
    assert (await store.space(did(4), create=True)).did == did(4)
    await store.close()


@pytest.mark.rule("STORE-7")
async def test_room_is_made_before_a_space_is_opened() -> None:
    storage = FewDescriptors()
    store = store_on(storage, open_spaces_max=3)
    for number in range(10):
        await store.space(did(number), create=True)
        assert storage.count() <= 3
    await store.close()


async def test_a_space_that_cannot_be_opened_for_want_of_room_says_so() -> None:
    storage = LonelyStorage()
    store = store_on(storage)

    def fail(_operation: str) -> None:
        raise DiskFull

    storage.fail = fail
    with pytest.raises(errors.StorageFull):
        await store.space(did(1), create=True)
    storage.fail = lambda _operation: None
    assert (await store.space(did(1), create=True)).version == 0
    await store.close()
