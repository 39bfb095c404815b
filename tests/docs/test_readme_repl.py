"""The README's examples are pasted into a real Python prompt, as a newcomer does, and print what they should."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Process

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
ADDRESS = "ws://127.0.0.1:8420"
SECONDS_MAX = 60.0
NOTE = "'urn:note:1': {'text': 'write the spec', 'done': False}"
DRAFT = "'urn:note:2': {'text': 'only on the draft, until it is merged'}"
WRONG = ("Traceback", "Error", "Warning", "was never awaited")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process = Process(tmp_path_factory.mktemp("served"))
    process.start()
    yield process.address
    process.kill()


class Prompt:
    """An interactive Python on a pseudo-terminal."""

    def __init__(self, home: Path, *words: str) -> None:
        self.shown = ""
        environment = {
            "HOME": str(home), "PATH": os.environ.get("PATH", os.defpath), "TERM": "xterm", "PYTHONUTF8": "1",
        }  # fmt: skip
        self._terminal, theirs = pty.openpty()
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, *words],
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.wait_for(">>> ")

    def paste(self, text: str) -> None:
        """All of it at once, as a terminal does."""
        data = text.encode()
        while data:
            data = data[os.write(self._terminal, data) :]

    def wait_for(self, text: str, count: int = 1) -> str:
        """What was shown until this text was there so often."""
        until = time.monotonic() + SECONDS_MAX
        while self.shown.count(text) < count:
            assert time.monotonic() < until, f"{text!r} was not shown {count} times:\n{self.shown}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.shown += os.read(self._terminal, 65_536).decode(errors="replace").replace("\r", "")
        return self.shown

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture
def prompts(tmp_path: Path) -> Iterator[dict[str, Prompt]]:
    """Those that a test started, which end with it."""
    started: dict[str, Prompt] = {}
    yield started
    for prompt in started.values():
        prompt.end()


def pasted(prompt: Prompt, code: str, address: str, mark: str) -> str:
    before = len(prompt.shown)
    prompt.paste(code.replace(ADDRESS, address) + f"print('{mark}'.upper())\n")
    return prompt.wait_for(f"{mark.upper()}\n")[before:]


def test_the_first_example_can_be_pasted_into_an_asyncio_prompt_and_again(
    server: str, tmp_path: Path, prompts: dict[str, Prompt]
) -> None:
    prompt = prompts["asyncio"] = Prompt(tmp_path, "-m", "asyncio")
    for turn in ("once", "twice"):
        shown = pasted(prompt, BLOCKS[0], server, turn)
        assert not [wrong for wrong in WRONG if wrong in shown], shown
        watched, merged, past = (line_of(shown, name) for name in ("watch:", "merged:", "past:"))
        assert NOTE in watched
        assert NOTE in merged
        assert DRAFT in merged
        assert merged.endswith(" ()"), "no conflicts"
        assert NOTE in past
        assert (DRAFT in past) is (turn == "twice"), "the first version has nothing of the draft"


def line_of(shown: str, name: str) -> str:
    """What was printed with this in front; the command itself has a quote before it."""
    found = re.search(rf"^(?:>>> )?{name} .*$", shown, re.MULTILINE)
    assert found is not None, shown
    return found[0]


@pytest.mark.parametrize("number", range(1, len(BLOCKS)))
def test_the_others_can_be_pasted_into_a_plain_prompt_and_again(
    number: int, server: str, tmp_path: Path, prompts: dict[str, Prompt]
) -> None:
    prompt = prompts["plain"] = Prompt(tmp_path)
    for turn in ("once", "twice"):
        shown = pasted(prompt, BLOCKS[number], server, turn)
        assert not [wrong for wrong in WRONG if wrong in shown], shown
        if "ship it" in BLOCKS[number]:
            assert "{'text': 'ship it', 'done': False}" in shown, shown


def test_the_readme_and_the_tutorial_use_different_spaces() -> None:
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    named = set(re.findall(r'\.space\("([^"]+)"\)', "\n".join(BLOCKS)))
    assert named
    for name in named:
        assert not re.search(rf"\b(space create|STEMMADB_SPACE=|--space) ?{name}\b", tutorial)
        assert f'space("{name}")' not in tutorial
