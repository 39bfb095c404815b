"""Values, people, times and notes as text that is safe to show.

Whatever others wrote has its control characters escaped, so that it cannot move the cursor or forge lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Final

from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.shapes import TextCell
from stemmadb.protocol.model.values.json_values import Value

METHOD: Final = "did:key:"
DID_END: Final = 8
"""How many letters of a DID's end are enough to tell people apart."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: the identities it knows by name, and its time zone (None: that of the machine)."""

    names: Mapping[str, str] = field(default_factory=dict)
    """From DID to name."""
    zone: tzinfo | None = None

    def person(self, did: str) -> TextCell:
        """A name that is known here and the end of the DID; where there is room, all of it."""
        known = self.names.get(did)
        if known is None:
            return TextCell(short_did(did), "cyan", wide=did)
        name = clean(known)
        return TextCell(f"{name} …{did[-DID_END:]}", "cyan", wide=f"{name} {did}", narrow=name)

    def named(self, did: str) -> str:
        """The DID whole, with the name before it if one is known."""
        known = self.names.get(did)
        return did if known is None else f"{clean(known)} ({did})"

    def time(self, when: datetime) -> TextCell:
        return TextCell(when.astimezone(self.zone).strftime("%Y-%m-%d %H:%M:%S"), "dim")


NOBODY: Final = Viewer()


def pretty(value: Value) -> str:
    """A value as JSON over several lines; it can be read back."""
    return "\n".join(map(clean, json.dumps(value, indent=2, ensure_ascii=False).split("\n")))


def compact(value: Value) -> str:
    """A value as JSON in one line."""
    return clean(json.dumps(value, ensure_ascii=False))


def short_did(did: str) -> str:
    """`z6Mk…` and the end, which differs from one to the other."""
    bare = did.removeprefix(METHOD)
    return bare if len(bare) <= DID_END + 5 else f"{bare[:4]}…{bare[-DID_END:]}"


def note_text(note: Value) -> str:
    """A note as a person wrote it: a text, or an object with `message`; anything else as JSON."""
    if note is None or note == {}:
        return ""
    if isinstance(note, dict) and isinstance(note.get("message"), str) and len(note) == 1:
        note = note["message"]
    return clean(note) if isinstance(note, str) else compact(note)


def operation_text(operation: Mapping[str, Value]) -> str:
    """One operation of a patch, as short as it can be said."""
    kind, path = operation.get("op"), clean(str(operation.get("path"))) or "/"
    if kind in ("add", "replace"):
        return f"{path} = {compact(operation.get('value'))}"
    if kind == "remove":
        return f"{path} removed"
    if kind == "increment":
        return f"{path} += {compact(operation.get('by'))}"
    if kind in ("move", "copy"):
        return f"{path} {kind} of {clean(str(operation.get('from')))}"
    if kind == "splice":
        at, gone, new = (operation.get(name) for name in ("index", "remove", "add"))
        return f"{path} at {compact(at)}: {compact(gone)} removed, {compact(new)} added"
    return f"{path} {clean(str(kind))} {compact(operation.get('value'))}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 write`, `2 writes`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
