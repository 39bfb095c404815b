"""A patch of 100 bytes on a watched document of 1 MB, against the same patch on one of 1 KB."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks import _load, _service
from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.request import Operation, Read

SCENARIO = "service: patch of 100 B on a watched document of {}, {}"
SIZES = {"1 KB": 1, "1 MB": 1_000}
SECTION_PARAGRAPHS = 10
PATH = "/sections/0/paragraphs/0/text"


def document(paragraphs: int) -> dict[str, object]:
    """Sections of ten paragraphs of about a kilobyte."""
    made = [{"text": f"{number} ".ljust(950, "x"), "style": "body"} for number in range(paragraphs)]
    starts = range(0, paragraphs, SECTION_PARAGRAPHS)
    return {"sections": [{"paragraphs": made[start : start + SECTION_PARAGRAPHS]} for start in starts]}


class Patcher(_service.Writer):
    """Replaces one paragraph's text, declared."""

    def send(self) -> None:
        change = encode([{"op": "replace", "path": PATH, "value": f"{self.local:>40}"}])
        read = Read(version=Version(self.version), id=self.id, path=PATH)
        self.push((Operation(op="patch", id=self.id, body=change),), (read,))


class Setting:
    """One writer and one watcher of one document, in a space of its own."""

    def __init__(self, server: _service.Server, paragraphs: int) -> None:
        space = _service.Space(server.port)
        self.pid = server.pid
        patcher = Patcher(server.port, space.did, space.key, number=1_000_000)
        patcher.open()
        patcher.begin("urn:doc:1", document(paragraphs))
        self.patcher = patcher
        watcher = space.session()
        watcher.watch(_service.query_of(EntityId("urn:doc:1")))
        self.watcher = watcher.ready()

    def measure(self, commits: int) -> tuple[_load.Figures, _load.Figures]:
        return _load.fan_out(self.patcher, [self.watcher], pid=self.pid, commits=commits)


def run(quick: bool = False) -> list[dict[str, object]]:
    commits, reps = (200, 1) if quick else (2_000, 5)
    _load.prepare_process()
    events: dict[str, list[_load.Figures]] = {size: [] for size in SIZES}
    writes: dict[str, list[_load.Figures]] = {size: [] for size in SIZES}
    with ExitStack() as stack:
        server = stack.enter_context(_service.served())
        settings = {size: Setting(server, paragraphs) for size, paragraphs in SIZES.items()}
        for _ in range(reps):
            for size, setting in settings.items():
                by_event, by_write = setting.measure(commits)
                events[size].append(by_event)
                writes[size].append(by_write)
    rows = []
    small, large = SIZES
    for size in SIZES:
        for kind, runs in (("by event", events), ("by write", writes)):
            names = {"cpu_ratio": "cpu_us_per_op", "p50_ratio": "p50_us", "p99_ratio": "p99_us"}
            more = _load.ratios(runs[large], runs[small], names) if size == large else {}
            rows.append(_load.row(SCENARIO.format(size, kind), "stemmadb", runs[size], clients=2, **more))
    return rows
