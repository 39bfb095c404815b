"""A thousand sessions watch a thousand graphs and commits touch ten of them, against only those ten being there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks import _load, _service
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.request import Operation, Read

TOUCHED, PARTS = 10, 3
SCENARIO = "service: {} sessions on as many graphs, commits on {} of them"
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


class Toucher(_service.Session):
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

    def __init__(self, server: _service.Server, *, graphs: int, sessions: int) -> None:
        self.pid = server.pid
        space = _service.Space(server.port)
        space.fill({id_: value for number in range(graphs) for id_, value in graph(number).items()})
        self.watching = [self._watching(space, number) for number in range(sessions)]
        self.toucher = Toucher(server.port, space.did, space.key, number=1_000_000)
        self.toucher.open()
        self.toucher.start()

    def _watching(self, space: _service.Space, number: int) -> _service.Session:
        session = space.session()
        session.watch(_service.query_of(f"urn:graph:{number}", SCHEMA))
        return session.ready()

    def measure(self, seconds: float) -> _load.Figures:
        links = [session.link for session in self.watching]
        return _load.closed_loop([self.toucher], pid=self.pid, seconds=seconds, bystanders=links, warm_up=20)


def run(quick: bool = False) -> list[dict[str, object]]:
    sessions, seconds, reps = (100, 0.5, 1) if quick else (1_000, 4.0, 5)
    _load.prepare_process()
    few: list[_load.Figures] = []
    many: list[_load.Figures] = []
    with ExitStack() as stack:
        small = Setting(stack.enter_context(_service.served()), graphs=sessions, sessions=TOUCHED)
        large = Setting(stack.enter_context(_service.served()), graphs=sessions, sessions=sessions)
        for _ in range(reps):
            few.append(small.measure(seconds))
            many.append(large.measure(seconds))
    names = {"cpu_ratio": "cpu_us_per_op", "p50_ratio": "p50_us", "p99_ratio": "p99_us"}
    scenario = SCENARIO.format(sessions, TOUCHED)
    return [
        _load.row(scenario, "stemmadb", many, clients=sessions + 1, **_load.ratios(many, few, names)),
        _load.row(scenario, "stemmadb, only those ten connected", few, clients=TOUCHED + 1),
    ]
