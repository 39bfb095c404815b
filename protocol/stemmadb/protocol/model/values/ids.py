"""Names of things: entity ids, branch names, versions, locals, and the 16-byte ids clients make."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NewType

from stemmadb.protocol.errors import InvalidId, InvalidName
from stemmadb.protocol.model.values.limits import DEFAULTS

EntityId = NewType("EntityId", str)
BranchName = NewType("BranchName", str)
Did = NewType("Did", str)
Hash = NewType("Hash", bytes)
"""32 raw bytes of BLAKE3; people and JSON see it as a reference (`reference.write`)."""
Version = NewType("Version", int)
"""The Lamport clock of a space: 0 is empty, 1 the first commit (MODEL-1)."""
Local = NewType("Local", int)
"""A client's own number for a commit, rising within its session (COMMIT-5)."""
TimeMs = NewType("TimeMs", int)

MAIN = BranchName("main")
RANDOM_ID_BYTES = 16
HASH_BYTES = 32
EMPTY_SPACE = Version(0)

_BRANCH = re.compile(r"[A-Za-z0-9._/-]{1,128}")
# Characters that are not seen or that change how others are seen: the general categories Cc, Cf, Zs, Zl, Zp and Cs,
# and the noncharacters. Written out (Unicode 14.0), so that every peer decides alike.
_UNSEEN = (
    r"\x80-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u2064\u2066-\u206f\u3000\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd"
    r"\U00013430-\U00013438\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
    + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(1, 17))
)
# RFC 3986: a scheme, a colon, and only characters a URI may hold; non-ASCII is allowed as in an IRI.
_CHARACTER = rf"[^\x00-\x20\x7f<>\"{{}}|\\^`{_UNSEEN}]"
_is_uri = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_CHARACTER}+").fullmatch
_URI_PREFIX = re.compile(rf"{_CHARACTER}*")
_BYTES_OF_A_CHARACTER_MAX = 4  # so that only long texts need to be encoded to be measured


def entity_id(text: str, bytes_max: int = DEFAULTS.id_bytes_max) -> EntityId:
    """The text as an entity id, or `InvalidId` saying what is wrong with it (MODEL-2)."""
    try:
        is_uri = _is_uri(text) is not None
    except TypeError:
        raise InvalidId(id=repr(text)[:80], why=f"it is of type {type(text).__name__}, not a string") from None
    if not is_uri:
        raise InvalidId(id=_shown(text), why="it is not a URI with a scheme")
    if len(text) * _BYTES_OF_A_CHARACTER_MAX > bytes_max:
        _within_bytes(text, bytes_max)
    return text  # type: ignore[return-value]  # EntityId(text) would be a call, for each id of each commit


def id_prefix(text: str, bytes_max: int = DEFAULTS.id_bytes_max) -> str:
    """The beginning of entity ids, without the `*`; the empty prefix means every entity."""
    if _URI_PREFIX.fullmatch(text) is None:
        raise InvalidId(id=_shown(text), why="a prefix holds a character that no id may hold")
    _within_bytes(text, bytes_max)
    return text


@lru_cache(maxsize=1024)  # what is kept is valid, and so it is short
def branch_name(text: str) -> BranchName:
    """The text as a branch or tag name, or `InvalidName` (MODEL-2)."""
    if not isinstance(text, str):
        raise InvalidName(name=repr(text)[:80])
    if _BRANCH.fullmatch(text) is None:
        raise InvalidName(name=_shown(text))
    return MAIN if text == MAIN else BranchName(text)  # messages leave a default out only if it is the same object


def _within_bytes(text: str, bytes_max: int) -> None:
    if (size := len(text.encode())) > bytes_max:
        raise InvalidId(id=_shown(text), why=f"it has {size} bytes and at most {bytes_max} are allowed")


def _shown(text: str) -> str:
    """Enough of a bad name to recognise it, safe to print and to send."""
    return text[:80].encode("utf-8", "backslashreplace").decode()
