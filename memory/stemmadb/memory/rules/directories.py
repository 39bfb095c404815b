"""The namespace of a directory: what its git remote is called, else its own name.

>>> of_directory("git@github.com:acme/api.git", "/src/api", "/home/ada")
'custom:acme.api'
>>> of_directory(None, "/src/api", "/home/ada")
'custom:api-3bd054'
"""

from __future__ import annotations

import re
from typing import Final

from blake3 import blake3

from stemmadb.memory.rules.namespaces import of_repository
from stemmadb.memory.rules.refusals import InvalidRequest

_REMOTE: Final = re.compile(r"(?:[a-z+]+://[^/]*/|[^/:]+:(?!//)|)(.*?)(?:\.git)?/*", re.ASCII | re.DOTALL)


def of_directory(origin: str | None, real_path: str, home: str) -> str:
    """`origin` is the url of the git remote of that name, if there is one. `InvalidRequest` in / and at home."""
    found = _REMOTE.fullmatch(origin.strip()) if origin else None
    parts = [part for part in found[1].split("/") if part not in ("", ".", "..", "~")] if found else []
    if parts:
        return of_repository(".".join(parts))
    if real_path in ("/", home):
        raise InvalidRequest(f"{real_path} is no project. Go to one, or give the namespace with --ns.", field="ns")
    name = real_path.rstrip("/").rpartition("/")[2]
    return of_repository(f"{name}-{blake3(real_path.encode('utf-8', 'surrogateescape')).hexdigest()[:6]}")
