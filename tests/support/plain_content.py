"""Makes the contents of commits: operations, declared reads, links; every field in the order of its table."""

from __future__ import annotations

from typing import Any

from plain_bytes import pack

Fields = dict[str, Any]
ABSENT: Any = object()


def set_(entity: str, value: Any, *, blind: bool = True) -> Fields:
    return _operation("set", entity, value, blind=blind)


def patch_(entity: str, *operations: Fields, blind: bool = True) -> Fields:
    return _operation("patch", entity, list(operations), blind=blind)


def delete_(entity: str, *, blind: bool = True) -> Fields:
    return _operation("delete", entity, ABSENT, blind=blind)


def _operation(name: str, entity: str, value: Any, *, blind: bool) -> Fields:
    made: Fields = {"op": name, "id": entity}
    if value is not ABSENT:
        made["body"] = pack(value)
    if blind:
        made["blind"] = True
    return made


def read_(
    version: int,
    *,
    entity: str | None = None,
    prefix: str | None = None,
    path: str = "",
    branch: str | None = None,
    locals_: list[Any] | None = None,
) -> Fields:
    """A declared read; fields that have their default are left out."""
    given: Fields = {"version": version, "id": entity, "prefix": prefix, "path": path or None, "branch": branch}
    given["locals"] = locals_ or None
    return {name: value for name, value in given.items() if value is not None}


def content_of(operations: list[Fields], *, reads: list[Fields], branch: str, note: Any = ABSENT) -> bytes:
    content: Fields = {"operations": operations}
    if reads:
        content["reads"] = reads
    if branch != "main":
        content["branch"] = branch
    if note is not ABSENT:
        content["note"] = pack(note)
    return pack(content)


def link_to(entity: str, **more: Any) -> Fields:
    """A sigil link (QUERY-2)."""
    return {"/": {"link@1": {"id": entity, **more}}}


def increment(path: str, by: int = 1) -> Fields:
    return {"op": "increment", "path": path, "by": by}


def replace(path: str, value: Any) -> Fields:
    return {"op": "replace", "path": path, "value": value}


def query_of(*roots: str | Fields, branch: str = "main", **moment: int) -> Fields:
    made: Fields = {"roots": [{"id": root} if isinstance(root, str) else root for root in roots]}
    if branch != "main":
        made["branch"] = branch
    return {**made, **moment}
