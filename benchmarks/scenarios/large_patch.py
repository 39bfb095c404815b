"""A patch of 100 bytes on a watched document of 1 MB, beside the same patch on one of 1 KB."""

from __future__ import annotations

from benchmarks.harness import rows
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.figures import Figures
from benchmarks.load.loop import fan_out
from benchmarks.ours import service
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Space, query_of
from benchmarks.ours.writers import Writer
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version

NAME = "large_patch"
TITLE = "a patch of 100 B on a watched document of 1 MB, beside the same on one of 1 KB; by write and by event"
SIZES = {"1 KB": 1, "1 MB": 1_000}
SECTION_PARAGRAPHS = 10
COMMITS = 2_000
"""The most that a turn has."""
PATH = "/sections/0/paragraphs/0/text"


def document(paragraphs: int) -> dict[str, object]:
    """Sections of ten paragraphs of about a kilobyte."""
    made = [{"text": f"{number} ".ljust(950, "x"), "style": "body"} for number in range(paragraphs)]
    starts = range(0, paragraphs, SECTION_PARAGRAPHS)
    return {"sections": [{"paragraphs": made[start : start + SECTION_PARAGRAPHS]} for start in starts]}


class Patcher(Writer):
    """Replaces one paragraph's text, declared."""

    def send(self) -> None:
        change = encode([{"op": "replace", "path": PATH, "value": f"{self.local:>40}"}])
        read = Read(version=Version(self.version), id=self.id, path=PATH)
        self.push((Operation(op="patch", id=self.id, body=change),), (read,))


class Setting:
    """One writer and one watcher of one document, in a space of its own."""

    def __init__(self, server: Server, paragraphs: int) -> None:
        space = Space.made(server.port)
        self.pid = server.pid
        self.patcher = space.of(Patcher).begin("urn:doc:1", document(paragraphs))
        watcher = space.session()
        watcher.watch(query_of(EntityId("urn:doc:1")))
        self.watcher = watcher.ready()

    def measure(self, seconds: float) -> tuple[Figures, Figures]:
        return fan_out(self.patcher, [self.watcher], pid=self.pid, commits=COMMITS, seconds=seconds)


def scenario(size: str, kind: str) -> str:
    return f"{NAME}: {size}, {kind}"


def run(plan: Plan) -> list[Row]:
    turns = Turns()
    with service.served() as server:
        settings = {size: Setting(server, paragraphs) for size, paragraphs in SIZES.items()}
        for _ in range(plan.reps):
            for size, setting in settings.items():
                events, writes = setting.measure(plan.seconds)
                turns.add_figures(Key(scenario(size, "by event"), rows.OURS, 2), events)
                turns.add_figures(Key(scenario(size, "by write"), rows.OURS, 2), writes)
    return turns.rows()
