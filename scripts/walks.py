"""Counts the Python calls of each walk through the running system: `python scripts/walks.py [--show WALK | --write]`.

A server runs on the event loop of the main thread and clients on a loop of their own thread, over real sockets and
real files. A profile hook notes every call of a product function in the threads of the side that is traced. Each walk
is taken many times, and the median counts. `--show` prints one walk call by call; `--write` writes the table of
docs/architecture.md, which a test compares with what it measures.

Calls: functions of this project that are entered; what a library or the C extension does is not counted, nor is a
comprehension. Files: those the functions are in. Crossings: how often the next call is in another folder.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import statistics
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, TypeAlias

from stemmadb.client import Space, connect
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.serving import app, build, loops
from stemmadb.server.serving.settings.config import Config

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs/architecture.md"
WARM_UP: Final = 40
"""Commits before the first walk: the group WAL is created after some batches, and caches fill."""
TURNS: Final = 15
SETTLE_SECONDS: Final = 0.02
"""How long the traced side may go on after the client has its answer."""
APPLIED_SECONDS: Final = 0.2
"""How long the checkpointer may take to apply what was just written: a reader that comes sooner does it itself."""
UNTRACED_THREADS: Final = ("stemmadb-checkpointer",)
"""It applies commits in the background, long after they are acknowledged."""
_COMPREHENSIONS: Final = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
_TABLE: Final = re.compile(r"(?<=<!-- walks -->\n).*?(?=<!-- /walks -->)", re.DOTALL)

Walk: TypeAlias = Callable[["Stage", int], Awaitable[Callable[[], Awaitable[object]]]]
"""Prepares a turn of a walk, and returns what is traced."""


class Figures(NamedTuple):
    calls: int
    files: int
    crossings: int


class Tracer:
    """Notes the calls of product functions in the threads that it was installed in, while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.seen: list[CodeType] = []

    def begin_thread(self, frame: FrameType, event: str, arg: object) -> None:  # noqa: ARG002  # as `sys.setprofile` calls it
        """The first event of a thread decides whether the thread is traced."""
        is_traced = not threading.current_thread().name.startswith(UNTRACED_THREADS)
        sys.setprofile(self._note if is_traced else None)

    def _note(self, frame: FrameType, event: str, arg: object) -> None:  # noqa: ARG002  # as `sys.setprofile` calls it
        code = frame.f_code
        if self.is_on and event == "call" and "/stemmadb/" in code.co_filename:
            self.seen.append(code)

    def take(self) -> list[CodeType]:
        seen, self.seen = self.seen, []
        return [code for code in seen if code.co_name not in _COMPREHENSIONS]


class Stage:
    """A server, a session that writes and one that watches, each with a tracer for its side."""

    def __init__(self, server: Tracer, client: Tracer, writer: Space, watching: Space) -> None:
        self.server = server
        self.client = client
        self.writer = writer
        self.watching = watching
        self.watch = watching.watch("urn:watched:*")
        self.branch: Space | None = None

    async def write(self, space: Space, id_: str, value: Value) -> int:
        async with space.transaction() as tx:
            tx.set(id_, value)
        return int(await tx.confirmed())

    async def trace(self, tracer: Tracer, work: Callable[[], Awaitable[object]]) -> list[CodeType]:
        await asyncio.sleep(SETTLE_SECONDS)
        tracer.is_on = True
        await work()
        await asyncio.sleep(SETTLE_SECONDS)
        tracer.is_on = False
        return tracer.take()


async def _commit(stage: Stage, turn: int) -> Callable[[], Awaitable[object]]:
    async def work() -> None:
        await stage.write(stage.writer, "urn:watched:1", {"turn": turn})
        await stage.watch.next()

    return work


async def _past_read(stage: Stage, turn: int) -> Callable[[], Awaitable[object]]:
    """An entity that was never read, at the first of its versions."""
    id_ = f"urn:past:{turn}"
    version = await stage.write(stage.writer, id_, {"text": "first"})
    await stage.write(stage.writer, id_, {"text": "second"})
    await asyncio.sleep(APPLIED_SECONDS)
    return lambda: stage.writer.at(version=version).get(id_)


async def _merge(stage: Stage, turn: int) -> Callable[[], Awaitable[object]]:
    branch = stage.branch = stage.branch or await stage.writer.branch("draft", create=True)
    await stage.write(branch, "urn:merged:1", {"turn": turn})
    return lambda: branch.merge_into("main")


async def _sdk_write(stage: Stage, turn: int) -> Callable[[], Awaitable[object]]:
    return lambda: stage.write(stage.writer, "urn:own:1", {"turn": turn})


WALKS: Final[dict[str, Walk]] = {
    "commit with one watcher": _commit,
    "read at an old version, cold": _past_read,
    "merge of one entity": _merge,
    "SDK write until confirmed": _sdk_write,
}
CLIENT_SIDE: Final = ("SDK write until confirmed",)


async def _walk_all(url: str, directory: Path, server: Tracer) -> dict[str, list[list[CodeType]]]:
    """Runs on the loop of the client thread."""
    client = Tracer()
    sys.setprofile(client.begin_thread)
    config = str(directory / "config")
    async with connect(url, config=config) as one, connect(url, config=config) as other:
        stage = Stage(server, client, await one.space("walks"), await other.space("walks"))
        await stage.watch.next()
        for number in range(WARM_UP):
            await stage.write(stage.writer, "urn:own:1", {"n": number})
        found: dict[str, list[list[CodeType]]] = {}
        for name, walk in WALKS.items():
            tracer = client if name in CLIENT_SIDE else server
            found[name] = [await stage.trace(tracer, await walk(stage, turn)) for turn in range(TURNS)]
        sys.setprofile(None)
        return found


def measure() -> dict[str, list[list[CodeType]]]:
    """The calls of each turn of each walk."""
    with tempfile.TemporaryDirectory() as directory:
        return loops.run(_serve_and_walk(Path(directory)))


async def _serve_and_walk(directory: Path) -> dict[str, list[list[CodeType]]]:
    tracer, loop, stop = Tracer(), asyncio.get_running_loop(), asyncio.Event()
    ready: asyncio.Future[str] = loop.create_future()
    found: asyncio.Future[Any] = loop.create_future()

    def client(url: str) -> None:
        try:
            result = asyncio.run(_walk_all(url, directory, tracer))
        except BaseException as error:
            loop.call_soon_threadsafe(found.set_exception, error)
            raise
        loop.call_soon_threadsafe(found.set_result, result)

    threading.setprofile(tracer.begin_thread)
    sys.setprofile(tracer.begin_thread)
    try:
        config = Config(data=directory / "data", port=0, log_level="error")
        serving = app.serve(
            config,
            make_service=build.make_service,
            make_listener=build.make_listener,
            ready=lambda serving: ready.set_result(serving.url),
            stop=stop,
        )
        task = asyncio.create_task(serving)
        thread = threading.Thread(target=client, args=(await ready,), name="walks-client")
        thread.start()
        try:
            result: dict[str, list[list[CodeType]]] = await found
        finally:
            thread.join()
            stop.set()
            await task
        return result
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def figures(turns: list[list[CodeType]]) -> Figures:
    """The median of all turns, each figure by itself."""
    each = [_figures_of(calls) for calls in turns]
    return Figures(*(round(statistics.median(column)) for column in zip(*each, strict=True)))


def _figures_of(calls: list[CodeType]) -> Figures:
    folders = [Path(code.co_filename).parent for code in calls]
    crossings = sum(one != after for one, after in itertools.pairwise(folders))
    return Figures(len(calls), len({code.co_filename for code in calls}), crossings)


def table(found: dict[str, list[list[CodeType]]]) -> str:
    rows = ["| walk | calls | files | folder crossings |", "|---|---|---|---|"]
    for name, turns in found.items():
        rows.append("| " + " | ".join([name, *map(str, figures(turns))]) + " |")
    return "\n".join(rows) + "\n"


def written() -> dict[str, Figures]:
    """The figures that docs/architecture.md gives."""
    page = _TABLE.search(PAGE.read_text())
    assert page is not None, f"{PAGE} has no table of walks"
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in page[0].splitlines()[2:]]
    return {name: Figures(*map(int, numbers)) for name, *numbers in cells}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", metavar="WALK", help="print the calls of one walk; its first word will do")
    parser.add_argument("--write", action="store_true", help="write the table of docs/architecture.md")
    asked = parser.parse_args()
    found = measure()
    print(table(found), end="")
    if asked.write:
        PAGE.write_text(_TABLE.sub(lambda _: table(found), PAGE.read_text()))
    for name, turns in found.items():
        if asked.show and name.startswith(asked.show):
            middle = sorted(turns, key=len)[len(turns) // 2]
            for code in middle:
                print(f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno}  {code.co_qualname}")


if __name__ == "__main__":
    main()
