"""What an app is told of a watch: one visible change of its answer."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value


@dataclass(frozen=True, slots=True)
class Change:
    """Takes the app from the answer it was told last to what is shown now; everything in it is in the order of ids.

    The first change brings all that is there, and comes also when nothing is: only that one can be falsy. The values
    are the app's own copies.

        async for change in space.watch("urn:todo:*"):
            todos.update(change.entered)
            todos.update(change.updated)
            for id_ in change.left:
                del todos[id_]
    """

    version: Version
    """The confirmed version it is as of; own pending writes are shown on top."""
    entered: dict[str, Value]
    """What began to be in the answer."""
    updated: dict[str, Value]
    """What was in the answer, is in it, and has another value."""
    left: tuple[str, ...]
    """What ceased to be in the answer: deleted, no longer matching, or no longer reached."""

    def __bool__(self) -> bool:
        return bool(self.entered or self.updated or self.left)


def copied(values: dict[EntityId, Value]) -> dict[str, Value]:
    """Private copies, in the order of ids: nothing an app does to a value changes what is held here."""
    return {id_: _decode(body.encode(values[id_])) for id_ in sorted(values)}


# Faster than walking through the value: three times for a large one, and alike for a small one.
_decode = msgspec.msgpack.Decoder().decode
