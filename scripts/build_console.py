"""Puts the built web console into an sdist and a wheel. `make console` builds it, with node; installing needs none.

A release without it would answer /console with a sentence for contributors, so building one fails. An editable
install only warns: the server finds build/console/ in the tree once it is there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
BUILT = "build/console"
IN_WHEEL = "stemmadb/server/http/console_files"
WHY = "The console was not built: run make console"


def include(build_data: dict[str, Any], *, place: str, is_editable: bool = False) -> None:
    """The files go to `place`; `RuntimeError` where they are missing from what is to be released."""
    is_there = all((ROOT / BUILT / name).is_file() for name in ("index.html", "pair.html"))
    if is_editable:
        if not is_there:
            print(f"{'console':<18} not there: make console builds it", file=sys.stderr)
        return
    if not is_there:
        raise RuntimeError(WHY)
    build_data["force_include"][str(ROOT / BUILT)] = place


class Console(BuildHookInterface[Any]):
    """The hook of the sdist, which a wheel can be built from without node."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        include(build_data, place=BUILT)
