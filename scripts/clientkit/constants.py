"""Bounds and error sentences as TypeScript, so that both languages say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.limits import DEFAULTS


def module() -> str:
    """`src/constants.ts`."""
    limits = "".join(f"  {name}: {value},\n" for name, value in msgspec.structs.asdict(DEFAULTS).items())
    errors = "".join(
        f"  {cls.code}: [{json.dumps(_sentence(cls), ensure_ascii=False)}, {json.dumps(cls.retriable)}],\n"
        for cls in every_error()
    )
    return (
        "// Made from the Python code by `make web-made`: do not edit.\n"
        f"export const LIMITS = {{\n{limits}}};\n\n"
        "/** Code: the sentence, with the names of its details, and whether trying again can help. */\n"
        f"export const ERRORS: Readonly<Record<string, readonly [string, boolean]>> = {{\n{errors}}};\n"
    )


def every_error() -> list[Any]:
    """The classes that have a code of their own, by code."""
    found = {cls.code: cls for cls in _below(StemmaError) if "code" in vars(cls)}
    return [found[code] for code in sorted(found)]


def _below(cls: type[StemmaError]) -> Iterator[type[StemmaError]]:
    for one in cls.__subclasses__():
        yield one
        yield from _below(one)


def _sentence(cls: type[StemmaError]) -> str:
    return re.sub(r"\{(\w+)!r\}", r"'{\1}'", cls.says)
