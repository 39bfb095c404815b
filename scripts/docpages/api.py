"""docs/reference: the classes and functions of the SDK as plain Markdown, which reads well without building the site.

A page in `scripts/docpages/pages` names what it shows, `::: package.module.Name` on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

import griffe
from scripts.docpages.docstrings import indented

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = Path(__file__).parent / "pages"
SOURCES: Final = [str(ROOT / name) for name in ("client", "protocol", "server")]
WANTED: Final = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
WRITTEN: Final = "<!-- Written by `make reference` from the docstrings. -->\n"
WIDTH: Final = 100
"""A longer signature has a line for each parameter."""
MODULE_ONLY: Final = "members: false"


def pages() -> dict[Path, Callable[[], str]]:
    """Each page of the reference, and what makes it."""
    return {
        ROOT / "docs" / "reference" / source.name: partial(page, source.read_text())
        for source in sorted(PAGES.glob("*.md"))
    }


def page(source: str) -> str:
    """The page with everything that it names written out."""
    title, _, rest = source.partition("\n")
    filled = WANTED.sub(lambda found: "\n".join(_shown(found[1], is_module=MODULE_ONLY in found[2])) + "\n", rest)
    return f"{title}\n{WRITTEN}{re.sub(chr(10) + '{3,}', chr(10) * 2, filled).rstrip()}\n"


def _shown(path: str, *, is_module: bool) -> Iterator[str]:
    found = _object(path)
    if is_module:
        yield _text(found)
    elif isinstance(found, griffe.Class):
        yield from _class(found)
    elif isinstance(found, griffe.Function):
        yield from ["", f"### {found.name}", *_function(found)]
    else:
        yield from ["", f"### {found.name}", "", _text(found)]


def _class(found: griffe.Class) -> Iterator[str]:
    yield from ["", f"### {found.name}", "", _text(found)]
    members = [one for one in found.members.values() if not one.name.startswith("_")]
    fields = [one for one in members if isinstance(one, griffe.Attribute)]
    if fields:
        yield from ["", *(_field(one) for one in fields)]
    for one in members:
        if isinstance(one, griffe.Function):
            yield from ["", f"#### {found.name}.{one.name}", *_function(one)]


def _field(found: griffe.Attribute) -> str:
    kind = f": `{found.annotation}`" if found.annotation is not None else ""
    says = " ".join(_text(found).split())
    return f"- `{found.name}`{kind}{'. ' if says else ''}{says}"


def _function(found: griffe.Function) -> Iterator[str]:
    is_async = "async " if "async" in found.labels else ""
    head, tail = f"{is_async}def {found.name}(", f") -> {found.returns or 'None'}"
    given = _parameters(found)
    line = f"{head}{', '.join(given)}{tail}"
    lines = [line] if len(line) <= WIDTH else [head, *(f"    {one}," for one in given), tail]
    yield from ["", "```py", *lines, "```"]  # not `python`: the tests run every block of that name
    if says := _text(found):
        yield from ["", says]


def _parameters(found: griffe.Function) -> list[str]:
    texts: list[str] = []
    is_bare = True
    for one in found.parameters:
        if one.name in {"self", "cls"}:
            continue
        if one.kind is griffe.ParameterKind.keyword_only and is_bare:
            texts.append("*")
            is_bare = False
        is_bare &= one.kind is not griffe.ParameterKind.var_positional
        texts.append(_parameter(one))
    return texts


def _parameter(one: griffe.Parameter) -> str:
    stars = ""
    if one.kind is not None:
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(one.kind, "")
    kind = "" if one.annotation is None else f": {one.annotation}"
    is_given = one.default is not None and not stars
    return f"{stars}{one.name}{kind}{f' = {one.default}' if is_given else ''}"


def _text(found: griffe.Object) -> str:
    return "" if found.docstring is None else indented(found.docstring.value).strip()


def _object(path: str) -> griffe.Object:
    """What the path names, read from its file alone: loading whole packages takes minutes."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        if (file := _file(parts[:length])) is not None:
            found: griffe.Object | griffe.Alias = _module(".".join(parts[:length]), file)
            for name in parts[length:]:
                found = found.members[name]
            return _object(found.target_path) if isinstance(found, griffe.Alias) else found
    raise KeyError(path)


def _file(parts: list[str]) -> Path | None:
    places = [Path(root, *parts) for root in SOURCES]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next((file for file in files if file.exists()), None)


@cache
def _module(name: str, file: Path) -> griffe.Module:
    return griffe.visit(name, file, file.read_text())
