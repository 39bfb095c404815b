"""A naive model of a space, and random steps of two clients over sockets that must always agree with it."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

from stemmadb.client import Space
from stemmadb.protocol.errors import Conflict

State: TypeAlias = dict[str, Any]
IDS = tuple(f"urn:m:{number}" for number in range(5))


class Steps:
    """One life: every write is confirmed before the next step, so that each read has one right answer."""

    def __init__(self, one: Space, other: Space, seed: int) -> None:
        self._spaces = (one, other)
        self._chance = random.Random(seed)
        self._now: State = {}
        self._past: dict[int, State] = {}
        """The state of `main` at each version that changed it."""
        self._drafts: dict[str, State] = {}
        self.steps = self.conflicts = 0

    async def run(self, count: int) -> None:
        looking = (self._look, self._look_back, self._list)
        kinds = (self._write, self._write, self._stale, self._fork, self._merge, *looking)
        for _ in range(count):
            await self._chance.choice(kinds)(self._chance.choice(self._spaces))
            self.steps += 1

    def _at(self, version: int) -> State:
        return self._past.get(max((one for one in self._past if one <= version), default=0), {})

    def _wrote(self, version: int) -> None:
        assert version > max(self._past, default=0), "versions never go back"
        self._past[version] = dict(self._now)

    # ------------------------------------------------------------ writing

    async def _write(self, space: Space) -> None:
        id_, number = self._chance.choice(IDS), self._chance.randrange(1_000)
        async with space.transaction() as tx:
            found: Any = await tx.get(id_)
            assert found == self._now.get(id_), f"{id_} was read before it is written"
            match self._chance.choice(("set", "patch", "increment", "delete")):
                case "patch" if found is not None:
                    tx.patch(id_, [{"op": "add", "path": "/more", "value": number}])
                    self._now[id_] = found | {"more": number}
                case "increment" if found is not None:
                    tx.increment(id_, "/n", by=number)
                    self._now[id_] = found | {"n": found["n"] + number}
                case "delete" if found is not None:
                    tx.delete(id_)
                    del self._now[id_]
                case _:
                    tx.set(id_, {"n": number})
                    self._now[id_] = {"n": number}
        await tx.confirmed()
        assert tx.version is not None
        self._wrote(tx.version)

    async def _stale(self, space: Space) -> None:
        """What was read changed before the commit came: it is refused, and nothing of it is there."""
        other = self._spaces[1 - self._spaces.index(space)]
        async with space.transaction() as late:
            await late.get(IDS[0])
            async with other.transaction() as tx:
                tx.set(IDS[0], {"n": -1}, blind=True)
            await tx.confirmed()
            late.set(IDS[0], {"n": "stale"})
        assert tx.version is not None
        self._now[IDS[0]] = {"n": -1}
        self._wrote(tx.version)
        try:
            await late.confirmed()
        except Conflict:
            self.conflicts += 1
        else:
            raise AssertionError("a commit on a stale read was accepted")

    # ------------------------------------------------------------ reading

    async def _look(self, space: Space) -> None:
        id_ = self._chance.choice(IDS)
        assert await space.get(id_) == self._now.get(id_)

    async def _look_back(self, space: Space) -> None:
        version, id_ = self._chance.randint(1, max(self._past, default=1)), self._chance.choice(IDS)
        assert await space.at(version=version).get(id_) == self._at(version).get(id_), f"{id_} at {version}"

    async def _list(self, space: Space) -> None:
        assert (await space.query("urn:m:*")).entities == self._now
        version = self._chance.randint(1, max(self._past, default=1))
        assert dict(await space.at(version=version).list("urn:m:*")) == self._at(version)

    # ------------------------------------------------------------ branches

    async def _fork(self, space: Space) -> None:
        """A branch of its own, with one entity that nobody else writes; it begins with what main has."""
        name = f"draft-{len(self._drafts)}-{self.steps}"
        draft = await space.branch(name, create=True)
        assert (await draft.query("urn:m:*")).entities == self._now
        id_, value = f"urn:m:{name}", {"n": self.steps}
        async with draft.transaction() as tx:
            tx.set(id_, value)
        await tx.confirmed()
        self._drafts[name] = {id_: value}
        assert await space.get(id_) is None, "main does not see it"

    async def _merge(self, space: Space) -> None:
        if not self._drafts:
            return
        name = self._chance.choice(sorted(self._drafts))
        merged = await (await space.branch(name)).merge_into("main", strategy="fail")
        self._now |= self._drafts.pop(name)
        assert merged.version is not None
        self._wrote(merged.version)
