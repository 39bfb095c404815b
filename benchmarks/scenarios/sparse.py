"""A thousand sessions watch a thousand graphs and commits touch ten of them, beside only those ten being there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.figures import Figures
from benchmarks.load.loop import closed_loop
from benchmarks.ours import service
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Session, Space, query_of
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version

NAME = "sparse"
TITLE = "1,000 sessions watch 1,000 graphs, commits touch 10 of them, beside only those 10 sessions connected"
TOUCHED, PARTS = 10, 3
ONLY = f"{NAME}: only those ten connected"
SESSIONS = 1_000
SCHEMA: dict[str, Any] = {
    "properties": {
        "title": {"type": "string"},
        "parts": {"items": {"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}},
    }
}


def graph(number: int) -> dict[str, object]:
    """A root and the entities it links to."""
    ids = [f"urn:part:{number}:{part}" for part in range(PARTS)]
    links = [{"/": {"link@1": {"id": id_}}} for id_ in ids]
    root: dict[str, object] = {f"urn:graph:{number}": {"title": f"graph {number}", "parts": links}}
    return root | {id_: {"text": "some text of a part", "count": 0} for id_ in ids}


class Toucher(Session):
    """Patches a part of each of the touched graphs in turn."""

    def start(self) -> Toucher:
        self._versions = [self.to] * TOUCHED
        self._turn = 0
        self.version = self.to
        self.ready()
        return self

    def send(self) -> None:
        turn = self._turn % TOUCHED
        if self._turn:
            self._versions[(self._turn - 1) % TOUCHED] = self.version
        self._turn += 1
        id_ = EntityId(f"urn:part:{turn}:1")
        change = encode([{"op": "replace", "path": "/count", "value": self._turn}])
        read = Read(version=Version(self._versions[turn]), id=id_, path="/count")
        self.push((Operation(op="patch", id=id_, body=change),), (read,))


class Setting:
    """A server with so many graphs, and so many sessions, each on its own."""

    def __init__(self, server: Server, *, graphs: int, sessions: int) -> None:
        self.pid = server.pid
        space = Space.made(server.port)
        space.fill({id_: value for number in range(graphs) for id_, value in graph(number).items()})
        self.watching = [self._watching(space, number) for number in range(sessions)]
        self.toucher = space.of(Toucher).start()

    def _watching(self, space: Space, number: int) -> Session:
        session = space.session()
        session.watch(query_of(f"urn:graph:{number}", SCHEMA))
        return session.ready()

    def measure(self, seconds: float) -> Figures:
        links = [session.link for session in self.watching]
        return closed_loop([self.toucher], pid=self.pid, seconds=seconds, bystanders=links, warm_up=20)


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    sessions, seconds = plan.pick(quick=(100, plan.seconds), usual=(SESSIONS, 2 * plan.seconds))
    with ExitStack() as stack:
        few = Setting(stack.enter_context(service.served()), graphs=sessions, sessions=TOUCHED)
        many = Setting(stack.enter_context(service.served()), graphs=sessions, sessions=sessions)
        for _ in range(plan.reps):
            turns.add_figures(Key(ONLY, rows.OURS, TOUCHED), few.measure(seconds))
            turns.add_figures(Key(NAME, rows.OURS, sessions), many.measure(seconds))
    return turns.rows()
