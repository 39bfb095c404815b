"""The seam of a draft: the view it stands on, and what it answers where the view does not reach."""

from __future__ import annotations

import enum
from typing import Final, Protocol

from stemmadb.client.nursery.entities import Absent
from stemmadb.client.nursery.shown import Shown, ShownLayers
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value


class MissingFromView(enum.Enum):
    """In the place of an answer: ask the server, tell the draft with `learn` or `learn_listing`, and try again."""

    MISSING = "missing"


MISSING: Final = MissingFromView.MISSING


class ViewLike(Protocol):
    """An immutable view, captured when the transaction starts (NURSERY-2)."""

    @property
    def to(self) -> Version:
        """The confirmed version of the whole view."""
        ...

    @property
    def branch(self) -> BranchName: ...

    def shown(self, id_: EntityId) -> Shown | None:
        """None if it is not in the view. Its value may be UNKNOWN: a blind pending patch on what nobody holds."""
        ...

    def listing(self, prefix: str) -> dict[EntityId, Shown] | None:
        """Everything under the prefix, pending commits included; None if not all of it is held."""
        ...

    def layers_under(self, prefix: str) -> dict[EntityId, ShownLayers]:
        """The entities under the prefix that pending commits write."""
        ...

    def replayed(self, id_: EntityId, base: Value | Absent) -> Shown:
        """What would be shown if the confirmed value were this one, with the pending commits on top."""
        ...
