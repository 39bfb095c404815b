"""What the reference does to docstrings: paragraphs that are Python become code."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

import griffe

_INDENT: Final = "    "
_PARAGRAPHS: Final = re.compile(r"(\n\s*\n)")


class Examples(griffe.Extension):
    """A docstring is written for `help()`, where its example may stand at the margin; Markdown wants it indented."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = indented(obj.docstring.value)


def indented(text: str) -> str:
    """
    >>> indented("One branch.\\n\\nawait space.branch('draft')")
    "One branch.\\n\\n    await space.branch('draft')"
    """
    parts = _PARAGRAPHS.split(text.replace("::\n", ":\n"))
    return "".join(_code(part) if is_python(part) else part for part in parts)


def _code(paragraph: str) -> str:
    return "\n".join(f"{_INDENT}{line}" for line in paragraph.split("\n"))


def is_python(paragraph: str) -> bool:
    """Whether it is code, which a sentence never is; a single word or a bare tuple of them proves nothing."""
    if not paragraph.strip() or paragraph.startswith((" ", ">>>")):
        return False
    try:
        tree = compile(paragraph, "docstring", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return False
    return not all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Name | ast.Constant) for one in tree.body)
