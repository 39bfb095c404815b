"""Examples of the OpenAPI document: with them every operation answers, in a space where they came in order.

They stand at parameters that are needed and at bodies. Tests send each of them as it stands. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TODO: Final = {"text": "milk", "done": False}
PARAMETERS: Final[Mapping[str, Any]] = {
    "space": "did:key:z6MkjBXy9Si3zBkFjCcuDc2eqXc1tAbuo3WSspssUQMmYZMM",
    "blob": "b3:5khrmpntq2bjexseshc6ldklwnig56gbj23yvbxjbdcwestheahq",
    "id": "urn:todo:1",
    "blind": True,
    "name": "draft",
    "left": "main@2",
    "right": "main",
    "select": "urn:todo:*",
    "wait": 1,
}
BYTES: Final = "hello"
"""The blob of the name above."""
BODIES: Final[Mapping[tuple[str, str], Any]] = {
    ("PUT", "/entity"): _TODO,
    ("PATCH", "/entity"): [{"op": "replace", "path": "/done", "value": True}],
    ("POST", "/commits"): {
        "operations": [{"op": "set", "id": "urn:todo:2", "body": _TODO}],
        "reads": [{"id": "urn:todo:2", "version": 0}],
        "note": {"message": "a second task"},
    },
    ("POST", "/query"): {"roots": [{"id": "urn:todo:*"}]},
    ("POST", "/branch"): {"parent": "main", "fork": 2},
    ("POST", "/tag"): {"version": 2},
    ("POST", "/merges"): {"source": "draft", "dry_run": True},
    ("POST", "/reverts"): {"versions": [2], "dry_run": True},
    ("POST", "/blobs"): BYTES,
    ("PUT", "/blobs/{blob}"): BYTES,
}
