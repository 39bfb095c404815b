"""docs/reference/errors.md: every error, from the classes themselves."""

from __future__ import annotations

import re
from typing import Final

from stemmadb.client.cli import exits
from stemmadb.protocol import errors
from stemmadb.protocol.errors import BadInput, Rejected, StemmaError, Unready

HEAD: Final = """\
# Errors
Every error that StemmaDB raises on purpose is a `StemmaError`. It has a `code`; a `message` that says what is wrong
and what to do next; `facts` for a program; and `retriable`, which says whether the same request can succeed later.
The client raises the same class that the server raised. A command that fails with an error exits with the code below.

```python
from stemmadb.protocol.errors import Conflict, Rejected, StemmaError, Unready

assert issubclass(Conflict, Rejected) and issubclass(Rejected, StemmaError)
assert Unready.retriable and not Conflict.retriable
```

Italic words in the messages are the facts. `make reference` generates this page from the code.
"""
GROUPS: Final[tuple[tuple[str, str, type[StemmaError] | None], ...]] = (
    ("The request is not well formed", "`BadInput`: sending the same again gives the same answer.", BadInput),
    (
        "Verdicts on a commit",
        "`Rejected`: the server understood the commit and did not accept it; nothing of it was written.",
        Rejected,
    ),
    (
        "Not now",
        "`Unready`: nothing is wrong with the request, and trying again can help. A commit stays pending.",
        Unready,
    ),
    ("Everything else", "Direct children of `StemmaError`.", None),
)


def page() -> str:
    parts = [HEAD]
    for title, says, base in GROUPS:
        rows = [_row(cls) for cls in errors.BY_CODE.values() if _base_of(cls) is base]
        head = ["| code | class | exit | message |", "|---|---|---|---|"]
        parts.append("\n".join([f"## {title}", says, "", *head, *rows, ""]))
    return "\n".join(parts)


def _base_of(cls: type[StemmaError]) -> type[StemmaError] | None:
    return next((base for _, _, base in GROUPS if base is not None and issubclass(cls, base)), None)


def _row(cls: type[StemmaError]) -> str:
    code = exits.code_of(cls(""))
    return f"| `{cls.code}` | `{cls.__name__}` | {code} | {_sentence(cls)} |"


def _sentence(cls: type[StemmaError]) -> str:
    """The template with its facts in italics."""
    return re.sub(r"\{(\w+)(![rs])?\}", r"*\1*", cls.says).replace("|", "\\|")
