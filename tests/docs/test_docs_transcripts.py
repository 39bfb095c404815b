"""Every command that the docs show is typed again, against a real server, and prints what the docs say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- run: (?P<how>.*?) -->\n)?^```(?:console|sh)\n(?P<text>\$ .*?)^```$", re.MULTILINE | re.DOTALL
)
TRANSCRIPTS = [
    page
    for page in PAGES
    if any(not (found["how"] or "").startswith("no") for found in BLOCK.finditer(page.read_text()))
]


def docpages(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.docpages", *map(str, words)]
    return subprocess.run(  # noqa: S603
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_tutorial_and_most_guides_have_transcripts() -> None:
    names = {page.name for page in TRANSCRIPTS}
    assert names >= {"tutorial.md", "branches.md", "history.md", "operating.md", "permissions.md", "watches.md"}


@pytest.mark.parametrize("page", TRANSCRIPTS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_says(page: Path) -> None:
    times = 2 if page.parent.name == "guides" else 1  # the same server, which has what the first time left there
    done = docpages("run", page, "--check", "--times", times)
    assert done.returncode == 0, f"run `make transcripts`, and look at what changed:\n{done.stdout}{done.stderr}"


def test_the_tutorial_can_be_followed_again_with_another_name(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    again = re.search(r"^## Create a space.*", text, re.MULTILINE | re.DOTALL)
    assert again is not None
    page = a_page(
        tmp_path,
        text,
        again[0].replace("STEMMADB_SPACE=todo", "STEMMADB_SPACE=todo-again").replace("  todo …", "  todo-again …"),
    )
    done = docpages("run", page, "--check")
    assert done.returncode == 0, done.stdout


def a_page(place: Path, *lines: str) -> Path:
    page = place / "page.md"
    page.write_text("\n".join([*lines, ""]))
    return page


def test_another_output_is_found_and_written_into_the_page(tmp_path: Path) -> None:
    page = a_page(tmp_path, "# A page", "```console", "$ echo one two", "three", "$ echo four", "```", "The end.")
    checked = docpages("run", page, "--check")
    assert checked.returncode == 1
    assert "-three" in checked.stdout
    assert "three" in page.read_text()
    assert docpages("run", page).returncode == 0
    assert page.read_text().splitlines() == [
        "# A page", "```console", "$ echo one two", "one two", "$ echo four", "four", "```", "The end."
    ]  # fmt: skip
    assert docpages("run", page, "--check").returncode == 0


def test_a_page_that_cannot_be_followed_twice_is_found(tmp_path: Path) -> None:
    page = a_page(tmp_path, "```console", "$ mkdir once", "```")
    assert docpages("run", page, "--check").returncode == 0
    done = docpages("run", page, "--check", "--times", 2)
    assert done.returncode == 1
    assert "mkdir once" in done.stdout


def test_a_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    page = a_page(tmp_path, "```console", "$ stemmadb get urn:a:1 --space nowhere", "```")
    done = docpages("run", page)
    assert done.returncode == 1
    assert "nowhere" in done.stdout
    assert page.read_text().count("\n") == 3, "nothing is written"


def test_chance_and_the_clock_do_not_count(tmp_path: Path) -> None:
    page = a_page(
        tmp_path,
        "```console",
        "$ stemmadb keys show",
        "did:key:z6MkvFTP89zVoPjxnggWvoaqMCEY2nXSVrpyCnVkEohmtoGr",
        "```",
    )
    assert docpages("run", page, "--check").returncode == 0
    page = a_page(tmp_path, "```console", "$ date +'%F %T'", "2001-02-03 04:05:06", "```")
    assert docpages("run", page, "--check").returncode == 0


def test_directives_say_how_a_block_is_run(tmp_path: Path) -> None:
    page = a_page(
        tmp_path,
        *('```py title="tell.py"', "print('from a file')", "```"),
        *("<!-- run: exit 3 -->", "```console", "$ export A=b", "$ python tell.py", "from a file", "$ exit 3", "```"),
        *("<!-- run: no, it never ends -->", "```console", "$ stemmadb serve", "```"),
        *("<!-- run: in any order -->", "```console", "$ echo $A; echo a", "a", "b", "```"),
        *(
            '<!-- run: live until "last" -->',
            "```console",
            "$ echo first; tail -n 1 -F news 2>/dev/null",
            "first",
            "last",
        ),
        *("```", "```console", "$ echo last > news", "```"),
    )
    done = docpages("run", page, "--check")
    assert done.returncode == 0, done.stdout
    page.write_text(page.read_text().replace("exit 3 -->", "exit 4 -->"))
    assert "ended with 3 and not 4" in docpages("run", page, "--check").stdout
