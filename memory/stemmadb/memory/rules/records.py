"""Memories: what an agent or a person wrote down. Text, kind and namespace never change; status and pin may."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from stemmadb.memory.rules import instants
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.namespaces import Namespace, is_present
from stemmadb.memory.rules.refusals import InvalidRequest

MemoryKind = Literal[
    "decision", "problem", "solution", "failed_tactic", "fact", "preference", "change", "summary", "checkpoint"
]
Status = Literal["active", "superseded", "deprecated", "draft"]
Authority = Literal["human", "agent"]
Via = Literal["json", "files", "mcp", "http", "command"]
Source = Literal["agent", "runtime", "user"]

KINDS: Final[tuple[str, ...]] = get_args(MemoryKind)
SOURCES: Final[tuple[str, ...]] = get_args(Source)
PLUGIN_KINDS: Final = ("fact", "summary", "checkpoint")
"""What the HTTP plugin interface knows; every other kind shows as `fact` there."""
DIMS_MAX: Final = 65_536
FLOAT32_MAX: Final = 3.4028234663852886e38


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of `urn:memory:<nsh>:<uuid>`."""

    v: Literal[1] = 1
    ns: str
    """The name of its namespace."""
    kind: MemoryKind
    text: str
    title: str | None = None
    target: str | None = None
    """What a decision is about."""
    status: Status = "active"
    authority: Authority = "agent"
    via: Via
    """The interface that made it."""
    source: Source | None = None
    """As the caller of the plugin interface gave it; gives no authority."""
    confidence: float | None = None
    truth: float | None = None
    utility: float | None = None
    rationale: str | None = None
    consequences: list[str] = msgspec.field(default_factory=list)
    pin: bool = False
    expires_at: Millis | None = None
    propagation: dict[str, Any] | None = None
    evidence: list[str] = msgspec.field(default_factory=list)
    links: dict[str, Any] = msgspec.field(default_factory=dict)
    """`"<rel>:<uuid>"` to a StemmaDB link. Only the newer memory of the two stores it."""
    created_at: Millis


def with_status(memory: Memory, status: Status) -> Memory:
    """The same memory in another state."""
    return msgspec.structs.replace(memory, status=status)


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `urn:vector:<nsh>:<uuid>`: an embedding that a caller gave."""

    v: Literal[1] = 1
    dims: int
    f32: str
    """Little-endian 32-bit floats in base64."""


def is_visible(memory: Memory, namespace: Namespace | None, now: Millis) -> bool:
    """Whether anything may find it: neither it nor its namespace is absent or expired."""
    return is_present(namespace, now) and not instants.is_past(memory.expires_at, now)


def read_embedding(given: object, field: str = "embedding") -> Vector:
    """Numbers that a 32-bit float can hold; `InvalidRequest` for none, NaN, infinity or anything else."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or not given:
        raise InvalidRequest(f"{field} must be a list of at least one number.", field=field)
    if len(given) > DIMS_MAX:
        raise InvalidRequest(f"{field} has {len(given)} numbers; at most {DIMS_MAX} are allowed.", field=field)
    for number in given:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InvalidRequest(f"{field} must hold numbers only.", field=field)
    try:
        packed = struct.pack(f"<{len(given)}f", *given)
        is_small = all(abs(number) <= FLOAT32_MAX for number in given if math.isfinite(number))
    except (OverflowError, struct.error):
        raise InvalidRequest(f"{field} has a number that does not fit into 32 bits.", field=field) from None
    if not is_small:
        raise InvalidRequest(f"{field} has a number that does not fit into 32 bits.", field=field)
    if not all(map(math.isfinite, given)):
        raise InvalidRequest(f"{field} has NaN or infinity in it.", field=field)
    return Vector(dims=len(given), f32=base64.b64encode(packed).decode())


def floats_of(vector: Vector) -> bytes:
    """The 32-bit floats as bytes, as an index compares them."""
    return base64.b64decode(vector.f32)


def stored(record: msgspec.Struct) -> dict[str, Any]:
    """A record as the store keeps it."""
    value = msgspec.to_builtins(record)
    assert isinstance(value, dict), "a record is an object"
    return value


def memory_of(value: object) -> Memory | None:
    """The memory that a stored value is; None for what somebody else wrote under such an id."""
    if not isinstance(value, Mapping):
        return None
    try:
        return msgspec.convert(value, Memory)
    except msgspec.ValidationError:
        return None
