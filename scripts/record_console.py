"""Records the console answering the questions people have, against a real server: `scripts/record-console`.

Every scene is a few lines typed into a console over a space that two people work on. What it shows at 80 columns is
written to docs/console, as text and as a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import re
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from stemmadb.client import Space, connect
from stemmadb.client.cli.connection import now
from stemmadb.client.cli.safe_text import Viewer
from stemmadb.client.console.catalogue import carry_out
from stemmadb.client.console.lexer import pieces
from stemmadb.client.console.prompt import prompt_pieces
from stemmadb.client.console.replies import ConsoleReply
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.keys.ring import KeyRing

ROOT: Final = Path(__file__).parents[1]
COLUMNS: Final = 80
COLOURS: Final = {
    "command": "bold green",
    "text": "green",
    "option": "cyan",
    "constant": "italic magenta",
    "id": "bright_blue",
    "number": "cyan",
    "mark": "bright_black",
    "class:space": "bold cyan",
    "class:place": "green",
    "class:past": "bold yellow",
}
FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""The pictures take whatever font is there: none is fetched from elsewhere."""


class Scene(NamedTuple):
    """A question, and the lines that answer it."""

    name: str
    question: str
    lines: tuple[str, ...]


SCENES: Final = (
    Scene("past", "What did urn:todo:1 look like at version 3?", ("at 3", "get urn:todo:1", "diff 3 head")),
    Scene("blame", "Who changed this field last?", ("blame urn:todo:1", "history urn:todo:1")),
    Scene("merge", "What would this merge do?", ("branches", "merge draft --dry-run --strategy fields")),
    Scene("now", "What is happening now?", ("watch urn:todo: --changes 4",)),
    Scene(
        "tour",
        "stemmadb console",
        ("log urn:todo:", "at 3", "get urn:todo:1", "at head", "blame urn:todo:1 /title", "branches"),
    ),
)


# ---------------------------------------------------------------- the space


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[str]:
    """The address of `stemmadb serve` in a process of its own."""
    words = ("-m", "stemmadb.client.cli", "serve", "--port", "0", "--data", str(directory / "data"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEMMA")}
    environment["HOME"] = str(directory)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=environment
    )
    try:
        yield await _address(process)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()


async def _address(process: Process) -> str:
    assert process.stdout is not None
    async for line in process.stdout:
        if found := re.search(rb"ws://[\w.:]+", line):
            return found[0].decode()
    raise RuntimeError("the server did not start")


async def put(space: Space, note: str, **values: object) -> None:
    """Writes `urn:todo:1` for the keyword `_1`."""
    async with space.transaction(note=note) as tx:
        for name, value in values.items():
            tx.set(f"urn:todo:{name.removeprefix('_')}", value)
    await tx.confirmed()


async def change(space: Space, note: str, name: str, path: str, value: object) -> None:
    async with space.transaction(note=note) as tx:
        tx.patch(f"urn:todo:{name}", [{"op": "replace", "path": path, "value": value}])
    await tx.confirmed()


async def work_together(ada: Space, bob: Space) -> None:
    """What the scenes are about, from version 3 on: a branch that was merged, and one that was not."""
    spec = {"title": "write the spec", "done": False, "owner": "ada"}
    await put(ada, "plan the week", _1=spec, _2={"title": "buy milk", "done": False})
    await change(bob, "clearer", "1", "/title", "write the specification")
    review = await bob.branch("review", create=True)
    await put(review, "a talk too", _3={"title": "give a talk", "done": False})
    await change(ada, "finished", "1", "/done", True)
    await review.merge_into("main", note="reviewed")
    draft = await bob.branch("draft", create=True)
    await change(draft, "take over", "1", "/owner", "bob")
    await change(draft, "oat milk it is", "2", "/title", "buy oat milk")
    await change(ada, "soy milk it is", "2", "/title", "buy soy milk")


async def buy(_ada: Space, bob: Space) -> None:
    await change(bob, "bought", "2", "/done", True)


async def cancel(ada: Space, _bob: Space) -> None:
    async with ada.transaction(note="cancelled") as tx:
        tx.delete("urn:todo:3")
    await tx.confirmed()


async def plan(_ada: Space, bob: Space) -> None:
    await put(bob, "next week", _4={"title": "rest", "done": False})


HAPPENING: Final = (buy, cancel, plan)
"""What happens while somebody watches, one after the other."""


# ---------------------------------------------------------------- the recording


class Recorder:
    """A console that writes down what a person would see."""

    def __init__(self, state: ConsoleState) -> None:
        self.state = state
        self._console = Console(
            record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor", emoji=False
        )

    async def line(self, text: str) -> AsyncIterator[ConsoleReply]:
        """Types a line; what it gives while it goes on, after it was shown."""
        prompt = [(piece[0], piece[1]) for piece in prompt_pieces(self.state)]
        typed = Text()
        for style, written in (*prompt, *pieces(text, is_first=True)):
            typed.append(written, COLOURS.get(style, ""))
        self._console.print(typed)
        reply = await carry_out(self.state, text)
        self._show(reply)
        self.state = reply.state or self.state
        if reply.stream is not None:
            async for part in reply.stream:
                self._show(part)
                yield part

    def _show(self, reply: ConsoleReply) -> None:
        for shape in reply.shapes:
            self._console.print(shape)

    def keep(self, scene: Scene, directory: Path) -> None:
        text = self._console.export_text(clear=False)
        picture = self._console.export_svg(title=scene.question, unique_id=f"console-{scene.name}")
        told = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        (directory / f"{scene.name}.txt").write_text(told, encoding="utf-8")
        (directory / f"{scene.name}.svg").write_text(FONT.sub("", picture), encoding="utf-8")


async def record(scene: Scene, state: ConsoleState, others: tuple[Space, Space], directory: Path) -> None:
    """Plays a scene; in one that goes on, each thing happens once what was before it has been shown."""
    recorder = Recorder(state)
    async with asyncio.TaskGroup() as working:
        for line in scene.lines:
            steps = iter(HAPPENING)
            async for _ in recorder.line(line):
                if step := next(steps, None):
                    working.create_task(step(*others))
    recorder.keep(scene, directory)


async def main(directory: Path, names: Sequence[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = await stack.enter_async_context(served(scratch))
        ring = KeyRing(scratch / "keys")
        people = {name: ring.identity(name) for name in ("ada", "bob")}
        ada, bob, mine = [
            await stack.enter_async_context(connect(url, identity=people[who], config=scratch / "keys"))
            for who in ("ada", "bob", "ada")
        ]
        hers = await ada.space("todo")
        await hers.acl.set(people["bob"].did, "write")
        his = await bob.space("todo")
        await work_together(hers, his)
        state = ConsoleState(
            space=await mine.space("todo"),
            name="todo",
            me=people["ada"].did,
            url=url,
            viewer=Viewer({str(who.did): name for name, who in people.items()}),
            now=now,
        )
        for scene in sorted(SCENES, key=lambda scene: scene.name == "now"):  # which changes what the others show
            if not names or scene.name in names:
                await record(scene, state, (hers, his), directory)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "console", help="the directory")
    parser.add_argument(
        "--scene", action="append", choices=[scene.name for scene in SCENES], help="all if none is named"
    )
    given = parser.parse_args()
    asyncio.run(main(given.into, given.scene or ()))
