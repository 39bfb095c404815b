"""Counts what makes this tree easy or hard to find one's way in: `python scripts/census.py [--json]`.

`--names` lists class names with several meanings; `--imports` writes the import picture into docs/architecture.md.

Modules, folders, the largest folder, long files, class names with more than one meaning, small modules that only one
other module imports, and places where tests reach into private attributes.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE_ROOTS: Final = ("protocol", "server", "client", "memory")
LONG_FILE: Final = 250
SMALL_MODULE: Final = 60
PRIVATE_REACH: Final = re.compile(r"(?<!self)(?<!cls)\._[a-z]\w*")


def modules() -> dict[str, Path]:
    """Every product module by its dotted name."""
    found: dict[str, Path] = {}
    for root in SOURCE_ROOTS:
        for file in sorted((ROOT / root / "stemmadb").rglob("*.py")):
            name = ".".join(file.relative_to(ROOT / root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


def lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def importers(found: dict[str, Path]) -> dict[str, set[str]]:
    """For each module, the product modules that import it."""
    by: dict[str, set[str]] = defaultdict(set)
    for name, file in found.items():
        for imported in _imports(file, found):
            by[imported].add(name)
    return by


def _imports(file: Path, found: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in found else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def ambiguous_classes(found: dict[str, Path]) -> dict[str, list[str]]:
    """Public class names with more than one meaning.

    Twins mean the same: in `client.sync` a thing without `await`, in `client.reading` a message as an app sees it.
    """
    by: dict[str, list[str]] = defaultdict(list)
    for name, file in found.items():
        if name.startswith("stemmadb.client.sync"):
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                by[node.name].append(name)
    return {name: where for name, where in sorted(by.items()) if len(where) > 1 and not _are_twins(where)}


def _are_twins(where: list[str]) -> bool:
    message, read = "stemmadb.protocol.wire.messages.", "stemmadb.client.reading."
    return len(where) == 2 and where[0].startswith(message) and where[1].startswith(read)


def private_reaches() -> Counter[str]:
    """How often each test file uses a private attribute of something that is not itself."""
    counted: Counter[str] = Counter()
    for file in sorted((ROOT / "tests").rglob("*.py")):
        if reaches := len(PRIVATE_REACH.findall(file.read_text())):
            counted[str(file.relative_to(ROOT))] = reaches
    return counted


def package_imports(found: dict[str, Path]) -> dict[str, list[str]]:
    """For each package, the packages of the same source root that its modules import."""
    by: dict[str, set[str]] = defaultdict(set)
    packages = {name for name, file in found.items() if file.name == "__init__.py"}
    for name, file in found.items():
        own = name if name in packages else name.rpartition(".")[0]
        for imported in _imports(file, found):
            target = imported if imported in packages else imported.rpartition(".")[0]
            if imported in found and target != own and target.split(".")[1] == own.split(".")[1]:
                by[own].add(target)
    return {name: sorted(targets) for name, targets in sorted(by.items()) if name.count(".") > 1}


def import_picture() -> str:
    lines = ["```"]
    for name, targets in package_imports(modules()).items():
        below = [one.removeprefix("stemmadb.").partition(".")[2] for one in targets]
        lines.append(f"{name.removeprefix('stemmadb.'):<32} {', '.join(filter(None, below))}".rstrip())
    return "\n".join([*lines, "```"])


def with_picture(page: str) -> str:
    """The page with the import picture of now between its two marks."""
    before, mark, rest = page.partition("<!-- imports -->\n")
    _, end, after = rest.partition("<!-- /imports -->")
    return f"{before}{mark}{import_picture()}\n{end}{after}"


def census() -> dict[str, int | str]:
    found = modules()
    folders = Counter(file.parent for file in found.values() if file.name != "__init__.py")
    largest, files = folders.most_common(1)[0]
    by = importers(found)
    reaches = private_reaches()
    return {
        "modules": len(found),
        "lines": sum(map(lines, found.values())),
        "folders": len(folders),
        "largest folder": f"{largest.relative_to(ROOT)} ({files})",
        f"files over {LONG_FILE} lines": sum(lines(file) > LONG_FILE for file in found.values()),
        "class names with more than one meaning": len(ambiguous_classes(found)),
        f"modules under {SMALL_MODULE} lines with one importer": sum(
            lines(file) < SMALL_MODULE and len(by[name]) == 1 and file.name != "__init__.py"
            for name, file in found.items()
        ),
        "private reaches in tests": f"{reaches.total()} in {len(reaches)} files",
    }


def main(arguments: list[str]) -> None:
    if "--imports" in arguments:
        page = ROOT / "docs/architecture.md"
        page.write_text(with_picture(page.read_text()))
        return
    if "--names" in arguments:
        for name, where in ambiguous_classes(modules()).items():
            print(f"{name}: {', '.join(where)}")
        return
    counted = census()
    if "--json" in arguments:
        print(json.dumps(counted, indent=2))
        return
    for what, number in counted.items():
        print(f"{what:<48} {number}")


if __name__ == "__main__":
    main(sys.argv[1:])
