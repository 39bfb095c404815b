"""The note of a commit, as the SDK takes and gives it: one type for every kind of write. Pure."""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.json_values import Value

MESSAGE: Final = "message"

NoteInput: TypeAlias = Value
"""A text, or an object that by convention has `message`; None is no note."""


class Note(dict[str, Value]):
    """What a commit says about itself: an object, empty and falsy if nothing was said.

        note.message, note.get("ticket"), str(note)

    A text that an app gave is under `message`, and so is a note of another program that is neither a text nor an
    object, as JSON.
    """

    @property
    def message(self) -> str:
        """The text for a person, empty if there is none."""
        found = self.get(MESSAGE, "")
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

    def __str__(self) -> str:
        """The message; all of it as JSON if there is more."""
        return json.dumps(self, ensure_ascii=False) if self.keys() - {MESSAGE} else self.message


def given_note(note: NoteInput) -> Value:
    """The note that is sent: a text becomes an object with `message`, whatever the kind of write."""
    if isinstance(note, Note):  # of another commit; an empty one is none
        return dict(note) or None
    return {MESSAGE: note} if isinstance(note, str) else note


def read_note(encoded: bytes | None) -> Note:
    """The note that was stored."""
    if encoded is None:
        return Note()
    found = body.read_stored(encoded)
    if isinstance(found, dict):
        return Note(found)
    if found is None:
        return Note()
    return Note({MESSAGE: found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)})
