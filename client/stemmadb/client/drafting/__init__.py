"""Drafts: what an app does in a transaction becomes operations and declared reads (NURSERY-2).

`draft` records the writes and reads of one transaction, `declaring` works out which reads the commit has to declare,
and `port` says what a draft needs of the view it reads.

Pure: no I/O, no clock, no randomness. Imports the nursery and the protocol.
"""

from __future__ import annotations

from stemmadb.client.drafting.draft import TransactionDraft
from stemmadb.client.drafting.port import MISSING, MissingFromView, ViewLike

__all__ = ["MISSING", "MissingFromView", "TransactionDraft", "ViewLike"]
