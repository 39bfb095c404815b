"""JSON Patch (RFC 6902) with `splice` and `increment`: apply, footprint, diff and inverse (PATCH-1..4)."""

from __future__ import annotations

from stemmadb.protocol.model.patch.apply import apply
from stemmadb.protocol.model.patch.diff import diff
from stemmadb.protocol.model.patch.footprint import Footprint, footprint
from stemmadb.protocol.model.patch.invert import invert
from stemmadb.protocol.model.patch.meter import Work
from stemmadb.protocol.model.patch.quick import apply_sized

__all__ = ["Footprint", "Work", "apply", "apply_sized", "diff", "footprint", "invert"]
