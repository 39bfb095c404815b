"""What changed in the confirmed values since it was last asked: what a cache has to write (CACHE-2)."""

from __future__ import annotations

from stemmadb.client.nursery.entities import Key
from stemmadb.protocol.model.values.ids import EntityId


class ConfirmedChanges:
    """Only says where to look: whoever takes it compares with the confirmed values of now."""

    __slots__ = ("bodies", "entities", "has_started_over", "members", "watches")

    def __init__(self) -> None:
        self.has_started_over = False
        """Everything that was told before is forgotten."""
        self.entities: set[Key] = set()
        """Their value may be another one."""
        self.bodies: dict[Key, bytes] = {}
        """The values of some of them, as the server sent them: these need not be encoded again."""
        self.members: dict[int, set[EntityId]] = {}
        """By watch, what it may have begun or ceased to hold."""
        self.watches: set[int] = set()
        """Watches that were filled, emptied or ended."""

    def __bool__(self) -> bool:
        return bool(self.has_started_over or self.entities or self.members or self.watches)

    def changed(self, key: Key, body: bytes | None = None) -> None:
        """The value of an entity is another one: this one, if it came whole."""
        self.entities.add(key)
        if body is not None:
            self.bodies[key] = body
        elif self.bodies:
            self.bodies.pop(key, None)

    def moved(self, watch: int, id_: EntityId) -> None:
        """The watch began or ceased to hold it."""
        self.members.setdefault(watch, set()).add(id_)

    def start_over(self) -> None:
        """Nothing that was noted before matters now."""
        self.has_started_over = True
        self.entities, self.bodies, self.members, self.watches = set(), {}, {}, set()
