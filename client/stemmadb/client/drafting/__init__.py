"""Drafting: what an app does in a transaction becomes a plan. Pure: no I/O, no clock, no randomness (NURSERY-2)."""

from __future__ import annotations

from stemmadb.client.drafting.draft import Draft
from stemmadb.client.drafting.port import MISSING, Missing, ViewLike

__all__ = ["MISSING", "Draft", "Missing", "ViewLike"]
