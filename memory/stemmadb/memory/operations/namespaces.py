"""Making, changing and listing namespaces. Deleting one is forgetting everything in it: see `forgetting`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stemmadb.client import Transaction
from stemmadb.memory.operations.memory_space import MemorySpace, Once
from stemmadb.memory.rules import ids, namespaces, records, roles
from stemmadb.memory.rules.calls import CallAnswer
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.namespaces import Namespace, NamespaceKind, namespace_of
from stemmadb.memory.rules.refusals import NoSuchNamespace
from stemmadb.memory.rules.roles import MemoryCaller

DECLARED: Final = (ids.TARGETS, ids.PROPOSALS, ids.TASKS, ids.FILES)
"""What other interfaces than the plugin's write into a namespace, beside memories; a decision writes its target."""


class NamespaceGone(Exception):
    """An expired or half deleted namespace has this name: its deletion must be finished first."""


class NamespaceChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a PATCH changes: only fields that were given; None clears."""

    expires_at: Millis | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


async def put_namespace(
    memory: MemorySpace,
    caller: MemoryCaller,
    name: str,
    *,
    kind: NamespaceKind,
    expires_at: Millis | None = None,
    metadata: dict[str, Any] | None = None,
    once: Once | None = None,
) -> Namespace:
    """Makes it, or overwrites everything but the time of its creation; `NamespaceGone` if remains of it are left."""
    roles.check_namespace(caller, name)
    entity = ids.namespace_entity(ids.namespace_hash(name))
    made: list[Namespace] = []

    async def work(tx: Transaction) -> CallAnswer:
        now, before = memory.clock.now(), namespace_of(await tx.get(entity))
        if before is not None and not namespaces.is_present(before, now):
            raise NamespaceGone
        made[:] = [
            namespaces.upserted(before, name=name, kind=kind, metadata=metadata, expires_at=expires_at, now=now)
        ]
        await _check_expiry(tx, memory, caller, before, made[0])
        tx.set(entity, records.stored(made[0]))
        return CallAnswer()

    await memory.write(work, locked=[entity], once=once)
    return made[0] if made else await get_namespace(memory, name)


async def patch_namespace(
    memory: MemorySpace, caller: MemoryCaller, name: str, change: NamespaceChange, *, once: Once | None = None
) -> Namespace:
    """Changes the fields that are given; `NoSuchNamespace` if it is absent or expired."""
    roles.check_namespace(caller, name)
    entity = ids.namespace_entity(ids.namespace_hash(name))
    given = {field: new for field, new in msgspec.structs.asdict(change).items() if new is not msgspec.UNSET}
    made: list[Namespace] = []

    async def work(tx: Transaction) -> CallAnswer:
        before = namespace_of(await tx.get(entity))
        if before is None or not namespaces.is_present(before, memory.clock.now()):
            raise NoSuchNamespace(name)
        made[:] = [msgspec.structs.replace(before, **given)]
        await _check_expiry(tx, memory, caller, before, made[0])
        tx.update(entity, records.stored(made[0]))
        return CallAnswer()

    await memory.write(work, locked=[entity], once=once)
    return made[0] if made else await get_namespace(memory, name)


async def check_may_end(tx: Transaction, memory: MemorySpace, caller: MemoryCaller, name: str) -> None:
    """`NotAllowed` for the plugin interface if another one wrote into it.

    Decisions, proposals, tasks and files are declared, so one that is written meanwhile counts. Memories are only
    read: under a load of the plugin's own writes a commit that declares them would be refused each time.
    """
    if caller.via != "http":
        return
    nsh = ids.namespace_hash(name)
    for prefix in DECLARED:
        roles.check_may_end(caller, name, (await tx.list(f"{prefix}{nsh}:*")).values())
    roles.check_may_end(caller, name, (await memory.space.list(f"{ids.MEMORIES}{nsh}:*")).values())


async def _check_expiry(
    tx: Transaction, memory: MemorySpace, caller: MemoryCaller, before: Namespace | None, after: Namespace
) -> None:
    """An expiry ends a namespace too; one that was there before may stay, or move to a later time."""
    if namespaces.ends_sooner(before, after):
        await check_may_end(tx, memory, caller, after.name)


async def get_namespace(memory: MemorySpace, name: str) -> Namespace:
    found = namespace_of(await memory.space.get(ids.namespace_entity(ids.namespace_hash(name))))
    if found is None or not namespaces.is_present(found, memory.clock.now()):
        raise NoSuchNamespace(name)
    return found


async def list_namespaces(memory: MemorySpace, caller: MemoryCaller) -> Sequence[Namespace]:
    """Those that are there and that the caller may use, by name."""
    found = map(namespace_of, (await memory.space.list(ids.NAMESPACES + "*")).values())
    now = memory.clock.now()
    shown = [
        one
        for one in found
        if one is not None and namespaces.is_present(one, now) and roles.may_use(caller, one.name)
    ]
    return sorted(shown, key=lambda one: one.name)


async def check_is_there(tx: Transaction, memory: MemorySpace, name: str) -> None:
    """`NoSuchNamespace` unless it can be written to; declared, so that it is true when the commit is decided.

    Only these three paths are declared: a change of its metadata does not disturb who writes into it.
    """
    entity = ids.namespace_entity(ids.namespace_hash(name))
    kind, deleting, expires = [await tx.get(entity, f"/{path}") for path in ("kind", "deleting", "expires_at")]
    is_past = isinstance(expires, int) and expires <= memory.clock.now()
    if kind is None or deleting or is_past:
        raise NoSuchNamespace(name)


async def ensure_namespace(
    tx: Transaction,
    memory: MemorySpace,
    name: str,
    kind: NamespaceKind = "custom",
    metadata: dict[str, Any] | None = None,
) -> None:
    """Makes it in this transaction if it was never there; for interfaces that demand no namespace beforehand."""
    entity = ids.namespace_entity(ids.namespace_hash(name))
    if await tx.get(entity, "/kind") is None:
        made = Namespace(name=name, kind=kind, metadata=metadata, created_at=memory.clock.now())
        tx.create(entity, records.stored(made))
    else:
        await check_is_there(tx, memory, name)
