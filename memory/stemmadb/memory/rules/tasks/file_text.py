"""The text of a file: read into a value with what is wrong with it, and written with the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

BOM_MARK: Final = "\ufeff"
NOT_JSON: Final = "is not one JSON value."
TASK_KEYS: Final = (
    "id", "type", "title", "description", "status", "parent", "children", "dependencies", "acceptanceCriteria",
    "deliverables", "tests", "agent", "startedAt", "completedAt", "validationResults",
)  # fmt: skip
"""The order in which a task file has its fields; others follow by name."""
INDEX_KEYS: Final = ("id", "type", "status", "parent", "children", "dependencies", "progress", "deliverables")


class FileText(NamedTuple):
    """A JSON file as it was read: its value, or why it has none."""

    text: str | None
    """None if it is not UTF-8, or not a file at all."""
    value: Any = None
    refusal: str | None = None


def read_json(data: bytes) -> FileText:
    """A byte order mark before the value is taken for what it is; `findings` names it."""
    try:
        text = data.decode()
        value = msgspec.json.decode(text.removeprefix(BOM_MARK).encode())
    except UnicodeDecodeError:
        return FileText(None, refusal=NOT_JSON)
    except (msgspec.DecodeError, RecursionError):
        return FileText(text, refusal=NOT_JSON)
    return FileText(text, value)


def write_json(value: Any) -> str:
    """Two spaces, LF, one newline at the end; DEL is escaped, as jq does it."""
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return encoded.replace("\x7f", "\\u007f") + "\n"


def quoted(text: str) -> str:
    """As JSON writes it.

    >>> print(quoted('1.2"'))
    "1.2\\""
    """
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def in_order(fields: Mapping[str, Any], keys: Iterable[str] = TASK_KEYS) -> dict[str, Any]:
    """The same fields, known ones first."""
    known = tuple(keys)
    first = {key: fields[key] for key in known if key in fields}
    return first | {key: fields[key] for key in sorted(fields.keys() - first.keys())}
