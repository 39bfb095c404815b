"""The ids of the entities that agent memory keeps in a space.

ns:<nsh>                         a namespace; <nsh> is a hash of its name, so a delegation by prefix can be
memory:<nsh>:<uuid>              limited to one namespace
vector:<nsh>:<uuid>              the embedding of that memory
target:<nsh>:<hash>              what decisions are about, and which of them is active
observation:<nsh>:<uuid>:<uuid>  what changed the truth or the utility of the first uuid's memory
proposal:<nsh>:<uuid>            a decision that waits for a person
memory-call:<hash>               a call that carried an idempotency key
forget:<uuid>                    entities whose bytes are still to be erased
session:<uuid>                   a session of an agent that wrote; the commit that makes it is of that session
"""

from __future__ import annotations

import re
from base64 import b32encode
from typing import Final, NewType

from blake3 import blake3

from stemmadb.memory.rules.refusals import InvalidRequest

MemoryId = NewType("MemoryId", str)
"""A uuid in lower case with hyphens: what callers see."""
NamespaceHash = NewType("NamespaceHash", str)

HASH_CHARACTERS: Final = 26
"""130 bits of the name's BLAKE3, in base32."""
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
NAMESPACES: Final = "urn:ns:"
MEMORIES: Final = "urn:memory:"
VECTORS: Final = "urn:vector:"
TARGETS: Final = "urn:target:"
OBSERVATIONS: Final = "urn:observation:"
PROPOSALS: Final = "urn:proposal:"
TASKS: Final = "urn:task:"
FILES: Final = "urn:file:"
OF_A_NAMESPACE: Final = (MEMORIES, VECTORS, TARGETS, OBSERVATIONS, PROPOSALS, TASKS, FILES)
"""Entities that go with their namespace: each id goes on with the namespace's hash."""
CALLS: Final = "urn:memory-call:"
FORGETS: Final = "urn:forget:"
SESSIONS: Final = "urn:session:"


def namespace_hash(name: str) -> NamespaceHash:
    """The same for the same name, and nothing of the name can be read from it."""
    return NamespaceHash(b32encode(blake3(name.encode()).digest())[:HASH_CHARACTERS].decode().lower())


def namespace_entity(nsh: NamespaceHash) -> str:
    return NAMESPACES + nsh


def memory_entity(nsh: NamespaceHash, memory: MemoryId) -> str:
    return f"{MEMORIES}{nsh}:{memory}"


def vector_entity(nsh: NamespaceHash, memory: MemoryId) -> str:
    return f"{VECTORS}{nsh}:{memory}"


def target_entity(nsh: NamespaceHash, target: str) -> str:
    return f"{TARGETS}{nsh}:{namespace_hash(target)}"


def proposal_entity(nsh: NamespaceHash, proposal: MemoryId) -> str:
    return f"{PROPOSALS}{nsh}:{proposal}"


def observations_of(nsh: NamespaceHash, memory: MemoryId) -> str:
    """What the ids of a memory's observations begin with."""
    return f"{OBSERVATIONS}{nsh}:{memory}:"


def observation_entity(nsh: NamespaceHash, memory: MemoryId, observation: MemoryId) -> str:
    return observations_of(nsh, memory) + observation


def session_entity(uuid: str) -> str:
    return SESSIONS + uuid


def forget_entity(uuid: str) -> str:
    return FORGETS + uuid


def call_entity(key: str, agent: str, operation: str, space: str) -> str:
    """Lengths keep two lists of parts from having the same bytes. The key itself is stored nowhere."""
    parts = [part.encode("utf-8", "surrogatepass") for part in (key, agent, operation, space)]
    joined = b"".join(len(part).to_bytes(4) + part for part in parts)
    return CALLS + blake3(joined).hexdigest()


def read_memory_id(text: object, field: str = "id") -> MemoryId:
    """A uuid in any case; `InvalidRequest` for anything else."""
    lowered = text.lower() if isinstance(text, str) else ""
    if not _UUID.fullmatch(lowered):
        raise InvalidRequest(f"{field} must be a uuid such as 550e8400-e29b-41d4-a716-446655440000.", field=field)
    return MemoryId(lowered)


def numbered_id(word: str, number: int) -> MemoryId:
    """The same uuid for the same word and number, for examples and tests; anybody can guess it."""
    digits = blake3(f"{word} {number}".encode()).hexdigest()
    return MemoryId(f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}")


def parts_of(entity: str) -> tuple[NamespaceHash, MemoryId] | None:
    """Namespace and uuid of a memory's entity id; None for any other entity."""
    return _parts(entity, MEMORIES)


def proposal_parts_of(entity: str) -> tuple[NamespaceHash, MemoryId] | None:
    """Namespace and uuid of a proposal's entity id; None for any other entity."""
    return _parts(entity, PROPOSALS)


def _parts(entity: str, prefix: str) -> tuple[NamespaceHash, MemoryId] | None:
    if not entity.startswith(prefix):
        return None
    nsh, _, uuid = entity[len(prefix) :].partition(":")
    if len(nsh) != HASH_CHARACTERS or not _UUID.fullmatch(uuid):
        return None
    return NamespaceHash(nsh), MemoryId(uuid)
