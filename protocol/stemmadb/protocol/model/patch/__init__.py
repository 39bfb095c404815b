"""JSON Patch (RFC 6902) with `splice` and `increment`: apply, footprint, diff and inverse (PATCH-1..4).

`apply` changes a value without touching the old one, `footprint` says which paths a patch reads and writes, `diff`
finds a patch between two values, `invert` undoes one, and `meter` bounds the work.

Imports only `values`.
"""

from __future__ import annotations

from stemmadb.protocol.model.patch.apply import apply, apply_each
from stemmadb.protocol.model.patch.diff import diff
from stemmadb.protocol.model.patch.footprint import Footprint, footprint
from stemmadb.protocol.model.patch.invert import invert
from stemmadb.protocol.model.patch.meter import Work
from stemmadb.protocol.model.patch.quick import apply_sized

__all__ = ["Footprint", "Work", "apply", "apply_each", "apply_sized", "diff", "footprint", "invert"]
