"""The README of `@stemmadb/client`: its table of rules is what the tests of typescript/ cite, and what is missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "typescript/client/README.md"
CITATION: Final = re.compile(r"\brule\(([^)]*)\)")
TABLE: Final = re.compile(r"<!-- rules -->\n.*<!-- /rules -->\n", re.DOTALL)

LATER: Final = {
    "BLOB-1": "blobs",
    **{f"CACHE-{number}": "the offline cache" for number in range(1, 7)},
    "FACT-3": "msgpack with verification of hashes",
    "QUERY-7": "traversal on the client",
    "QUERY-8": "`order` and `limit`",
    "WATCH-1": "schemas on the client: with own pending writes",
    "WATCH-4": "watches with a window",
}
"""Rules that a later stage brings, and with what."""
NOT_PORTED: Final = {
    "HISTORY-4": "`space.ask`",
    "NAME-1": "a name is remembered for an address; a space can be opened by its DID",
    "QUERY-9": "`space.ask`",
    "QUERY-10": "`space.ask`",
    "QUERY-11": "`space.ask`",
    "TOKEN-1": "`stemmadb token` makes them",
    "WATCH-3": "`space.log` gives what came since",
}
"""Rules that the Python client has and this one does not, and what there is instead."""


def text() -> str:
    """The page with its table as it would be written now."""
    return TABLE.sub(lambda _: f"<!-- rules -->\n{_table()}<!-- /rules -->\n", README.read_text())


def _table() -> str:
    rows = {rule: f"holds | {', '.join(f'`{file}`' for file in files)}" for rule, files in cited().items()}
    rows |= {rule: f"holds later | {what}" for rule, what in LATER.items()}
    rows |= {rule: f"not ported | {what}" for rule, what in NOT_PORTED.items()}
    lines = (f"| {rule} | {row} |\n" for rule, row in sorted(rows.items(), key=_order))
    return "| rule | | tests, or what is missing |\n|---|---|---|\n" + "".join(lines)


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


def _order(item: tuple[str, object]) -> tuple[str, int]:
    name, number = item[0].split("-")
    return name, int(number)
