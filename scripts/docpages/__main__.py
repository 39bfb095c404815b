"""`python -m scripts.docpages run` types the commands of pages and keeps what they print; `reference` writes pages.

With `--check` nothing is written, and the exit code is 1 if a page is not what it would become.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from scripts.docpages import api, commands, errors
from scripts.docpages.blocks import Block, Step, read, rewritten
from scripts.docpages.running import Failed, Reader
from scripts.docpages.shapes import normalised

from stemmadb.server.http.description import openapi

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"


def _openapi() -> str:
    return openapi.encoded().decode()


REFERENCE: Final = {
    DOCS / "reference" / "commands.md": commands.page,
    DOCS / "reference" / "errors.md": errors.page,
    DOCS / "reference" / "openapi.json": _openapi,
    **api.pages(),
}


def has_transcripts(page: Path) -> bool:
    return any(block.steps and not block.is_skipped for block in read(page.read_text()))


def run(pages: Sequence[Path], *, is_check: bool, times: int = 1) -> bool:
    """Whether every page said what happens."""
    found = pages or sorted(filter(has_transcripts, DOCS.rglob("*.md")))
    results = [_run(page, is_check=is_check, times=times) for page in found]
    return all(results)


def _run(page: Path, *, is_check: bool, times: int) -> bool:
    text = page.read_text()
    blocks = read(text)
    with tempfile.TemporaryDirectory() as place:
        reader = Reader(Path(place))
        try:
            reader.follow(blocks, times=times)
        except Failed as failed:
            print(f"{page}: {failed}")
            return False
    changed = {
        block.start: made for block in blocks if (made := reader.outputs.get(block.start)) if _differ(block, made)
    }
    for block in blocks:
        if block.start in changed:
            print(f"{page}:{block.start}: the output is another one\n{_compared(block, changed[block.start])}")
    if changed and not is_check:
        page.write_text(rewritten(text, changed))
    return not changed or not is_check


def _differ(block: Block, made: Sequence[Step]) -> bool:
    then, now = normalised(_lines(block.steps)), normalised(_lines(made))
    return sorted(then) != sorted(now) if block.is_unordered else then != now


def _compared(block: Block, made: Sequence[Step]) -> str:
    return "\n".join(unified_diff(normalised(_lines(block.steps)), normalised(_lines(made)), lineterm="", n=1))


def _lines(steps: Iterable[Step]) -> list[str]:
    return [line for step in steps for line in step.lines()]


def reference(*, is_check: bool) -> bool:
    """Whether the pages are those that the code gives."""
    is_current = True
    for page, made in REFERENCE.items():
        text = made()
        if page.exists() and page.read_text() == text:
            continue
        is_current = False
        print(f"{page.relative_to(ROOT)} is not current" if is_check else f"wrote {page.relative_to(ROOT)}")
        if not is_check:
            page.write_text(text)
    return is_current or not is_check


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.docpages", description=__doc__)
    parser.add_argument("what", choices=["run", "reference"])
    parser.add_argument("pages", nargs="*", type=Path, help="for run; without them every page with transcripts")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--times", type=int, default=1, help="follow each page so often, on one server")
    given = parser.parse_args()
    if given.what == "run":
        done = run(given.pages, is_check=given.check, times=given.times)
    else:
        done = reference(is_check=given.check)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
