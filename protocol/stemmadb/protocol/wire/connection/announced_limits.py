"""The bounds a server announces in `hello`, by name: a name the client does not know is no reason to part."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits


def announced(limits: Limits) -> dict[str, int]:
    """Every bound of a server by its name."""
    return msgspec.structs.asdict(limits)


def understood(named: Mapping[str, int]) -> Limits:
    """The bounds to keep to: those announced, and the defaults for those that are not."""
    known = {name: bound for name, bound in named.items() if name in DEFAULTS.__struct_fields__}
    for name, bound in known.items():
        if bound < 1:
            raise Malformed(path=f"limits/{name}", why="a bound is at least 1")
    return msgspec.structs.replace(DEFAULTS, **known)
