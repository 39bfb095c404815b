"""Cursors: where a page ended, as text that a client gives back, and that is not trusted (QUERY-6).

A cursor holds the versions that all pages show, the place after which the next one begins, and a mark of the
request it belongs to; `cursor_cover` adds what covers the hashes of the versions. It is neither secret nor signed: a
client that forges one gets a page at some place, with what it may read anyway. So a place is never an id that the
caller may not read (`readable_ids`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

import msgspec
from blake3 import blake3
from msgspec import Meta

from stemmadb.protocol.errors import Malformed, StemmaError
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.protocol.wire.messages.fields import WireVersion
from stemmadb.server.engine.read.log_histogram import Grid, HistogramPlace
from stemmadb.server.engine.read.log_pieces import BEFORE_THE_FIRST, LogPlace
from stemmadb.server.storage.port import FactPosition

MARK_BYTES: Final = 8
"""Enough to tell requests apart; it does not prevent forged cursors."""
ID_BYTES_MAX: Final = 1_400
"""The longest place whose cursor is still within the bound of its field, in base64."""

PINS_MAX: Final = 2
"""Versions that a cursor of any kind pins: what covers it is looked up before its kind is known."""

P = TypeVar("P")
Piece: TypeAlias = Annotated[int, Meta(ge=BEFORE_THE_FIRST, le=INT_MAX)] | str | None
RequestKey: TypeAlias = Sequence[object]
"""What was asked for, in plain values: a cursor goes on with this and with nothing else."""


class _Unfit(Exception):
    """It is not the place of such a list."""


class Kind(msgspec.Struct, Generic[P], frozen=True):
    """The cursors of one kind of request: how many versions they pin, and how their places are written."""

    name: str
    pins: int
    write: Callable[[P], list[Piece]]
    read: Callable[[list[Piece]], P]


class At(msgspec.Struct, Generic[P], frozen=True):
    """Where to go on: the versions of the first page, and the place after which to begin."""

    pinned: tuple[Version, ...]
    place: P


class _Written(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    mark: bytes
    pinned: Annotated[tuple[WireVersion, ...], Meta(max_length=PINS_MAX)]
    place: list[Piece]


_decode: Final = msgspec.msgpack.Decoder(_Written).decode


class Cursors(Generic[P]):
    """Writes and reads the cursors of one request on one space."""

    def __init__(self, kind: Kind[P], space: Did, request: RequestKey) -> None:
        self._kind = kind
        self._mark = blake3(encode((kind.name, space, request))).digest(MARK_BYTES)

    def write(self, pinned: Sequence[Version], place: P | None) -> str | None:
        """The `next` of a page; None where the list is at its end."""
        if place is None:
            return None
        assert len(pinned) == self._kind.pins, "each page of a list shows the same versions"
        return _text(_Written(self._mark, tuple(pinned), self._kind.write(place)))

    def read(self, text: str | None) -> At[P] | None:
        """Where `after` says to go on; `Malformed` for what is no cursor of this request."""
        if text is None:
            return None
        try:
            return self._read(text)
        except (binascii.Error, ValueError, msgspec.DecodeError, StemmaError, _Unfit):
            raise malformed() from None

    def _read(self, text: str) -> At[P]:
        written = _decode(base64.b64decode(text, altchars=b"-_", validate=True))
        if written.mark != self._mark or len(written.pinned) != self._kind.pins or _text(written) != text:
            raise _Unfit
        place = self._kind.read(written.place)
        if isinstance(place, FactPosition | LogPlace) and not 0 < place.version <= written.pinned[0]:
            raise _Unfit
        if isinstance(place, HistogramPlace) and _highest(place) > written.pinned[0]:
            raise _Unfit
        return At(written.pinned, place)


def place_of(at: At[P] | None) -> P | None:
    """After what to go on; None for the first page."""
    return None if at is None else at.place


def malformed() -> Malformed:
    return Malformed(path="after", why="it is not the 'next' of a page of this list")


def pinned_by(text: str) -> tuple[Version, ...]:
    """The versions that a cursor pins, of whatever list it is; `Malformed` for what is no cursor."""
    try:
        return _decode(base64.b64decode(text, altchars=b"-_", validate=True)).pinned
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise malformed() from None


def _text(written: _Written) -> str:
    return base64.urlsafe_b64encode(encode(written)).decode()


# ------------------------------------------------------------ places


def _read_id(parts: list[Piece]) -> EntityId:
    match parts:
        case [str(text)]:
            return ids.entity_id(text, ID_BYTES_MAX)
    raise _Unfit


def _read_name(parts: list[Piece]) -> BranchName:
    match parts:
        case [str(text)]:
            return ids.branch_name(text)
    raise _Unfit


def _read_text(parts: list[Piece]) -> str:
    match parts:
        case [str(text)]:
            return ids.id_prefix(text, ID_BYTES_MAX)
    raise _Unfit


def _read_place(parts: list[Piece]) -> FactPosition:
    match parts:
        case [int(version), int(index)] if index >= 0:
            return FactPosition(Version(version), index)
    raise _Unfit


def _read_log_place(parts: list[Piece]) -> LogPlace:
    match parts:
        case [int(version), int() | None as index]:
            return LogPlace(Version(version), index)
    raise _Unfit


def _highest(place: HistogramPlace) -> Version:
    return place.version if place.grid is None else max(place.version, place.grid.high)


def _histogram_place(place: HistogramPlace) -> list[Piece]:
    grid = place.grid
    return [place.version] if grid is None else [place.version, grid.low, grid.high]


def _read_histogram_place(parts: list[Piece]) -> HistogramPlace:
    match parts:
        case [int(version)] if version > 0:
            return HistogramPlace(Version(version), None)
        case [int(version), int(low), int(high)] if 0 < low <= version <= high:
            return HistogramPlace(Version(version), Grid(Version(low), Version(high)))
    raise _Unfit


def _read_count(parts: list[Piece]) -> int:
    match parts:
        case [int(count)] if count >= 0:
            return count
    raise _Unfit


QUERY: Final[Kind[EntityId]] = Kind("query", 1, lambda id_: [id_], _read_id)
PREFIXES: Final[Kind[str]] = Kind("prefixes", 1, lambda prefix: [prefix], _read_text)
DIFF: Final[Kind[EntityId]] = Kind("diff", 2, lambda id_: [id_], _read_id)
HISTORY: Final[Kind[FactPosition]] = Kind("history", 1, lambda place: [place.version, place.index], _read_place)
LOG: Final[Kind[LogPlace]] = Kind("log", 1, lambda place: [place.version, place.index], _read_log_place)
HISTOGRAM: Final[Kind[HistogramPlace]] = Kind("log.histogram", 1, _histogram_place, _read_histogram_place)
BLAME: Final[Kind[int]] = Kind("blame", 1, lambda count: [count], _read_count)
BRANCHES: Final[Kind[BranchName]] = Kind("branch.list", 1, lambda name: [name], _read_name)
TAGS: Final[Kind[BranchName]] = Kind("tag.list", 1, lambda name: [name], _read_name)
