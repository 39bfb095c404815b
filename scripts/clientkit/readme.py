"""The README of `@stemmadb/client`: its table of rules is what the tests of typescript/ cite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "typescript/client/README.md"
CITATION: Final = re.compile(r"\brule\(([^)]*)\)")
TABLE: Final = re.compile(r"<!-- rules -->\n.*<!-- /rules -->\n", re.DOTALL)


def text() -> str:
    """The page with its table as it would be written now."""
    return TABLE.sub(lambda _: f"<!-- rules -->\n{_table()}<!-- /rules -->\n", README.read_text())


def _table() -> str:
    rows = (f"| {rule} | holds | {', '.join(f'`{file}`' for file in files)} |\n" for rule, files in cited().items())
    return "| rule | | tests |\n|---|---|---|\n" + "".join(rows)


def cited() -> dict[str, list[str]]:
    """Each rule, and the test files of the client that cite it: those of the console are not about it."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "typescript").glob("*/**/*.test.ts")):
        if "node_modules" not in file.parts and "console" not in file.as_posix().removeprefix(ROOT.as_posix()):
            rules = {
                one for given in CITATION.findall(file.read_text()) for one in re.findall(r'"([A-Z]+-\d+)"', given)
            }
            for rule in rules:
                found.setdefault(rule, []).append(file.name)
    return dict(sorted(found.items(), key=_order))


def _order(item: tuple[str, list[str]]) -> tuple[str, int]:
    name, number = item[0].split("-")
    return name, int(number)
