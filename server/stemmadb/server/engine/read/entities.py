"""Getting entities at a moment: one, or many in one go (QUERY-1, HISTORY-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from stemmadb.protocol.errors import Erased, InvalidQuery, LimitExceeded
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EntityId, Hash, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment, ResolvedMoment
from stemmadb.server.engine.base.paging import ITEM_BYTES, MayRead, anything
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.storage.port import LogReader

HEAD = ReadMoment()


@dataclass(frozen=True)
class EntityValue:
    """An entity that has a value; `version` and `hash` are those of its last fact, checkpoints included."""

    id: EntityId
    version: Version
    hash: Hash
    value: Value
    encoded_size: int | None = field(default=None, compare=False, repr=False)
    """The length of `body`, where it is known without encoding a large value."""

    @cached_property
    def body(self) -> bytes:
        """The value encoded, made when it is first asked for: most of what a listing looks at is not returned."""
        return body.encode(self.value)

    @property
    def size(self) -> int:
        """What counts towards `query_bytes_max`."""
        return len(self.body) if self.encoded_size is None else self.encoded_size


class Got(msgspec.Struct, frozen=True):
    """One entity as of `version`; None if it does not exist, was deleted, or may not be read."""

    version: Version
    entity: EntityValue | None


class GotMany(msgspec.Struct, frozen=True):
    """Many entities as of `version`, in the order asked for; what was erased is named, what is missing is not."""

    version: Version
    entities: dict[EntityId, EntityValue]
    erased: tuple[EntityId, ...]


def get(reader: LogReader, id_: EntityId, moment: ReadMoment = HEAD, *, may_read: MayRead = anything) -> Got:
    """The entity at a moment; `Erased` where its state is, and the errors of `resolve_moment` (HISTORY-2)."""
    found = get_many(reader, [id_], moment, may_read=may_read)
    if found.erased:
        raise Erased(id=id_)
    return Got(found.version, found.entities.get(id_))


def get_many(
    reader: LogReader,
    ids: Sequence[EntityId],
    moment: ReadMoment = HEAD,
    *,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> GotMany:
    """All of them as of one version, from one reading of the log; at most `query_entities_max`."""
    if len(ids) > limits.query_entities_max:
        raise LimitExceeded(bound="query_entities_max", maximum=limits.query_entities_max, actual=len(ids))
    resolved = resolve_moment(reader, moment)
    loaded = states.load(reader, resolved.spans, [id_ for id_ in dict.fromkeys(ids) if may_read(id_)])
    there = [loaded[id_] for id_ in dict.fromkeys(ids) if id_ in loaded]
    entities = {one.id: entity for one in there if (entity := entity_of(one)) is not None}
    return GotMany(resolved.version, entities, tuple(one.id for one in there if is_erased(one)))


def resolve_moment(reader: LogReader, moment: ReadMoment) -> ResolvedMoment:
    """Resolves a moment, which names a version or a time and not both (QUERY-1)."""
    if moment.version is not None and moment.time is not None:
        raise InvalidQuery(why="it names both a version and a time")
    return moments.resolve(reader, moment)


def entity_of(loaded: LoadedEntity | None) -> EntityValue | None:
    """The entity, if it has a value."""
    if loaded is None or isinstance(loaded.value, Missing):
        return None
    return EntityValue(loaded.id, loaded.place.version, loaded.hash, loaded.value)


def is_erased(loaded: LoadedEntity | None) -> bool:
    """Whether there is a state that is not known any more (ERASE-1)."""
    return loaded is not None and isinstance(loaded.value, Missing) and loaded.value is not Missing.ABSENT


def message_size(entity: EntityValue) -> int:
    """What it takes in a message."""
    return len(entity.id.encode()) + entity.size + ITEM_BYTES
