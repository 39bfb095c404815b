"""The value that every system writes: a small JSON document."""

from __future__ import annotations

from stemmadb.protocol.model.values.body import encode

DOCUMENT: dict[str, object] = {
    "title": "write the spec",
    "done": False,
    "count": 1,
    "tags": ["a", "b"],
    "by": {"name": "alice"},
    "text": "Cost follows the change, and bytes are made once: a body is stored as its author encoded it.",
}
"""About 180 bytes encoded; with its id, the declared read and the rest a commit has about 330."""
VALUE = encode(DOCUMENT)
"""The same as bytes, for systems that hold bytes."""
