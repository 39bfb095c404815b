"""Bounds and error sentences as TypeScript, so that both languages say the same."""

from __future__ import annotations

import json
import re

import msgspec

from stemmadb.protocol.errors import BY_CODE, StemmaError
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.version import FEATURES


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
        "/** Messages, and fields as `message.field`, that are sent only to a server that names them in `hello`. */\n"
        f"export const FEATURES: ReadonlySet<string> = new Set({json.dumps(list(FEATURES))});\n\n"
        "/** Code: the sentence, with the names of its details, and whether trying again can help. */\n"
        f"export const ERRORS: Readonly<Record<string, readonly [string, boolean]>> = {{\n{errors}}};\n"
    )


def every_error() -> list[type[StemmaError]]:
    """The closed list of errors, by code; what else a process has derived from them is not on it."""
    return [BY_CODE[code] for code in sorted(BY_CODE)]


def _sentence(cls: type[StemmaError]) -> str:
    return re.sub(r"\{(\w+)!r\}", r"'{\1}'", cls.says)
