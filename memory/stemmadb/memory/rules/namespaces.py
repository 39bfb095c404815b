"""Namespaces: the named groups that memories belong to."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, get_args

import msgspec
from blake3 import blake3

from stemmadb.memory.rules import ids, instants
from stemmadb.memory.rules.instants import Millis
from stemmadb.memory.rules.refusals import InvalidRequest

NamespaceKind = Literal["workspace", "team", "org", "custom"]
KINDS: Final[tuple[str, ...]] = get_args(NamespaceKind)

NAME_CHARACTERS_MAX: Final = 256
_NAME: Final = re.compile(r"[a-z]+:[A-Za-z0-9_:.\-]+", re.ASCII)
GLOBAL: Final = "org:global"
"""Where memories with the scope `global` live."""
_HASHED: Final = "h."


class Namespace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of `urn:ns:<nsh>`."""

    v: Literal[1] = 1
    name: str
    kind: NamespaceKind
    metadata: dict[str, Any] | None = None
    expires_at: Millis | None = None
    created_at: Millis
    deleting: bool = False
    """Its memories are being forgotten: to every caller it is absent already."""

    @property
    def nsh(self) -> ids.NamespaceHash:
        return ids.namespace_hash(self.name)


def read_name(text: object, field: str = "name") -> str:
    """A name of the seed's pattern; `InvalidRequest` says what is wrong."""
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise InvalidRequest(
            f"{field} must be a kind, a colon and letters, digits or _ : . - such as workspace:42.", field=field
        )
    if len(text) > NAME_CHARACTERS_MAX:
        raise InvalidRequest(
            f"{field} has {len(text)} characters; at most {NAME_CHARACTERS_MAX} are allowed.", field=field
        )
    return text


def read_kind(kind: object) -> NamespaceKind:
    if kind not in KINDS:
        raise InvalidRequest(f"kind must be one of {', '.join(KINDS)}.", field="kind")
    return kind  # type: ignore[return-value]


def is_present(namespace: Namespace | None, now: Millis) -> bool:
    """Whether callers can use it: it exists, is not expired, and nobody is deleting it."""
    if namespace is None or namespace.deleting:
        return False
    return not instants.is_past(namespace.expires_at, now)


def upserted(
    before: Namespace | None,
    *,
    name: str,
    kind: NamespaceKind,
    metadata: dict[str, Any] | None,
    expires_at: Millis | None,
    now: Millis,
) -> Namespace:
    """PUT overwrites everything but `created_at`; a namespace that is absent begins now."""
    created_at = before.created_at if before is not None and is_present(before, now) else now
    return Namespace(name=name, kind=kind, metadata=metadata, expires_at=expires_at, created_at=created_at)


def ends_sooner(before: Namespace | None, after: Namespace) -> bool:
    """Whether a change makes it expire earlier than it would have."""
    if after.expires_at is None:
        return False
    return before is None or before.expires_at is None or after.expires_at < before.expires_at


def namespace_of(value: object) -> Namespace | None:
    """The namespace that a stored value is; None for what somebody else wrote under such an id."""
    try:
        return None if value is None else msgspec.convert(value, Namespace)
    except msgspec.ValidationError:
        return None


def of_repository(repo_id: str) -> str:
    """The namespace of a repository: `custom:<repo_id>` if that is a valid name, else a hash of it."""
    name = f"custom:{repo_id}"
    if _NAME.fullmatch(name) and len(name) <= NAME_CHARACTERS_MAX and not repo_id.startswith(_HASHED):
        return name
    return f"custom:{_HASHED}{blake3(repo_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
