"""Requests over HTTP, each beside the message that asks or writes the same on a WebSocket."""

from __future__ import annotations

from typing import Any

LISTED = {"roots": [{"id": "urn:a:*"}]}
WALKED = {"roots": [{"id": "urn:a:1", "schema": {"properties": {"next": {"$ref": "#"}}}}]}
QUESTIONS: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("GET", "/acl", None, {"type": "acl"}),
    ("GET", "/entities?prefix=urn:a:&limit=2", None, {"type": "query", "query": LISTED, "limit": 2}),
    ("GET", "/entities?version=3", None, {"type": "query", "query": {"roots": [{"id": "*"}], "version": 3}}),
    ("GET", "/entities?prefix=urn:a:&shape=ids", None, {"type": "query", "query": LISTED, "shape": "ids"}),
    ("GET", "/entities?prefix=urn:a:&shape=preview", None, {"type": "query", "query": LISTED, "shape": "preview"}),
    ("GET", "/entities/count?prefix=urn:a:", None, {"type": "count", "query": LISTED}),
    ("GET", "/entities/count?tag=v1", None, {"type": "count", "query": {"roots": [{"id": "*"}], "version": 3}}),
    ("GET", "/entities/prefixes?prefix=urn:&branch=..", None, {"type": "prefixes", "prefix": "urn:", "branch": ".."}),
    ("GET", "/entities/prefixes?separators=&version=4", None, {"type": "prefixes", "separators": "", "version": 4}),
    ("GET", "/log?with_ids=true&kinds=commit,branch.create", None,
     {"type": "log", "with_ids": True, "kinds": ["commit", "branch.create"]}),
    ("GET", "/log/histogram?by=time&buckets=3", None, {"type": "log.histogram", "by": "time", "buckets": 3}),
    ("GET", "/log/histogram?prefix=urn:b:", None, {"type": "log.histogram", "prefix": "urn:b:"}),
    ("POST", "/query", WALKED, {"type": "query", "query": WALKED}),
    ("GET", "/log?limit=3&with_facts=true", None, {"type": "log", "limit": 3, "with_facts": True}),
    ("GET", "/log?prefix=urn:b:&order=oldest", None, {"type": "log", "prefix": "urn:b:", "order": "oldest"}),
    ("GET", "/diff?left=main@2&right=..", None, {"type": "diff", "left": {"version": 2}, "right": {"branch": ".."}}),
    ("GET", "/entity/history?id=urn:a:1", None, {"type": "history", "entity": "urn:a:1"}),
    ("GET", "/entity/blame?id=urn:a:1&branch=..", None, {"type": "blame", "entity": "urn:a:1", "branch": ".."}),
    ("GET", "/branches", None, {"type": "branch.list"}),
    ("GET", "/tags", None, {"type": "tag.list"}),
    ("POST", "/merges", {"source": "..", "dry_run": True}, {"type": "merge", "source": "..", "dry_run": True}),
    ("POST", "/reverts", {"versions": [3], "dry_run": True}, {"type": "revert", "versions": [3], "dry_run": True}),
    ("GET", "/entity/history?id=urn:nobody", None, {"type": "history", "entity": "urn:nobody"}),
    ("GET", "/entities?version=99", None, {"type": "query", "query": {"roots": [{"id": "*"}], "version": 99}}),
    ("GET", "/log?branch=none", None, {"type": "log", "branch": "none"}),
    ("POST", "/merges", {"source": "none"}, {"type": "merge", "source": "none"}),
    ("POST", "/branch?name=..", {}, {"type": "branch.create", "name": ".."}),
    ("DELETE", "/branch?name=main", None, {"type": "branch.delete", "name": "main"}),
    ("DELETE", "/tag?name=none", None, {"type": "tag.delete", "name": "none"}),
]  # fmt: skip

COMMITS: list[dict[str, Any]] = [
    {"operations": [{"op": "set", "id": "urn:a:1", "body": 1, "blind": True}]},
    {"operations": [{"op": "set", "id": "urn:b:1", "body": 1, "blind": True}]},
    {"operations": [{"op": "set", "id": f"urn:{one}:9", "body": 1, "blind": True} for one in "ab"]},
    {"operations": [{"op": "set", "id": "urn:a:0", "body": 1, "blind": True}], "branch": ".."},
    {"operations": [{"op": "delete", "id": "urn:a:0"}], "reads": [{"id": "urn:a:0", "version": 1}]},
    {"operations": [{"op": "set", "id": "urn:a:3", "body": 1}], "reads": [{"id": "urn:b:1", "version": 99}]},
    {"operations": [{"op": "set", "id": "urn:a:3", "body": 1}]},
    {"operations": [{"op": "patch", "id": "urn:a:4", "body": [{"op": "no"}], "blind": True}]},
    {"operations": [{"op": "patch", "id": "urn:a:4", "body": [{"op": "remove", "path": "/x"}], "blind": True}]},
    {"operations": [{"op": "set", "id": "urn:a:4", "body": 1, "blind": True}], "branch": "none"},
    {"operations": []},
]
