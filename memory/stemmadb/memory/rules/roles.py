"""Who calls, and what the caller may do. A role comes from a secret and never from what a caller says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

from stemmadb.memory.rules.ids import NamespaceHash, namespace_hash
from stemmadb.memory.rules.records import Authority, Memory, Via, memory_of
from stemmadb.memory.rules.refusals import IsolationViolation, NotAllowed, PermissionDenied

Role = Literal["viewer", "agent", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)


class MemoryCaller(NamedTuple):
    """A caller of the memory server, as its secret makes it."""

    role: Role
    name: str
    """The agent's name, given when its secret was made."""
    via: Via
    """The interface it came by."""
    namespaces: frozenset[str] | None = None
    """The namespaces that its secret is limited to; None means all."""

    @property
    def authority(self) -> Authority:
        """What its writes carry: only an admin speaks for a person. The plugin interface is always an agent's."""
        return "human" if self.role == "admin" and self.via != "http" else "agent"

    def lowered(self, role: Role) -> MemoryCaller:
        """The same caller with a lower role; a higher one than its own is not given."""
        return self._replace(role=min(self.role, role, key=ROLES.index))


def check_role(caller: MemoryCaller, needs: Role) -> None:
    if ROLES.index(caller.role) < ROLES.index(needs):
        raise PermissionDenied(needs, caller.role)


def may_use(caller: MemoryCaller, namespace: str) -> bool:
    return caller.namespaces is None or namespace in caller.namespaces


def may_use_hash(caller: MemoryCaller, nsh: NamespaceHash) -> bool:
    """The same for a namespace of which only the hash is known."""
    return caller.namespaces is None or nsh in map(namespace_hash, caller.namespaces)


def check_namespace(caller: MemoryCaller, namespace: str) -> None:
    if not may_use(caller, namespace):
        raise NotAllowed(f"This secret is limited to other namespaces than {namespace}.")


def check_may_forget(caller: MemoryCaller, memory: Memory, uuid: str) -> None:
    """The plugin interface deletes what it wrote; an agent what an agent wrote; an admin everything."""
    check_namespace(caller, memory.ns)
    if caller.via == "http":
        if memory.via != "http":
            raise NotAllowed(f"Memory {uuid} was not written by this interface, so it cannot be deleted here.")
        return
    check_role(caller, "agent")
    if memory.authority == "human" and caller.role != "admin":
        raise IsolationViolation(uuid)


def check_may_end(caller: MemoryCaller, namespace: str, held: Iterable[object]) -> None:
    """The plugin interface ends a namespace only if all that it holds are memories that this interface wrote."""
    if caller.via != "http":
        return
    for value in held:
        memory = memory_of(value)
        if memory is None or memory.via != "http":
            raise NotAllowed(f"{namespace} holds what this interface did not write, so it cannot be ended here.")
