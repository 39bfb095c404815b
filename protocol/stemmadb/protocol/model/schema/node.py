"""One subschema of a document: what it asserts, and the subschemas it applies where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blake3 import blake3

from stemmadb.protocol.model.schema.admit import canonical
from stemmadb.protocol.model.schema.work import SchemaRun
from stemmadb.protocol.model.values import pointer

IGNORED = frozenset(("$schema", "$comment", "title", "description", "default", "examples", "$defs"))
MARK = "x-entity-reference"


class Document:
    """The whole schema that a subschema belongs to, and to which its `$ref`s refer."""

    __slots__ = ("_key", "raw")

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self._key: bytes | None = None

    @property
    def key(self) -> bytes:
        if self._key is None:
            self._key = blake3(canonical(self.raw)).digest()
        return self._key


class SchemaNode:
    """A subschema at `path` of its document. Written by `parse` and `resolve`, never changed afterwards."""

    __slots__ = (
        *("_key", "arrivals", "document", "has_ref", "is_false", "is_mere_ref", "is_true", "path", "raw", "search"),
        *("additional", "all_of", "any_of", "defs", "items", "negated", "one_of", "prefix", "properties", "ref"),
        *("judges", "schema"),
    )

    def __init__(self, document: Document, raw: Any, path: tuple[str, ...]) -> None:
        self.document = document
        self.path = path
        self.raw: dict[str, Any] = raw if type(raw) is dict else {}
        self.is_false = raw is False
        # true, {} and what holds nothing but notes say the same: anything goes
        self.is_true = raw is True or (raw is not False and self.raw.keys() <= IGNORED)
        self.has_ref = "$ref" in self.raw
        self.is_mere_ref = self.has_ref and self.raw.keys() - IGNORED == {"$ref"}
        self.properties: dict[str, SchemaNode] = {}
        self.additional: SchemaNode | None = None
        self.prefix: list[SchemaNode] = []
        self.items: SchemaNode | None = None
        self.all_of: list[SchemaNode] = []
        self.any_of: list[SchemaNode] = []
        self.one_of: list[SchemaNode] = []
        self.negated: SchemaNode | None = None
        self.ref: SchemaNode | None = None
        self.defs: dict[str, SchemaNode] = {}
        self.search: Callable[[str, SchemaRun], bool] | None = None
        self.arrivals = 0
        self.schema: Any = None  # itself as a `Schema`, once that is asked for
        self.judges: list[Any] = [None, None, None]  # one for each way of judging, see `judge`
        self._key: bytes | None = None

    @property
    def marked(self) -> bool:
        """Whether a string here names an entity."""
        return self.raw.get(MARK) is True

    @property
    def speaks_of_children(self) -> bool:
        return any(key in self.raw for key in ("properties", "additionalProperties", "items", "prefixItems"))

    @property
    def applies_others(self) -> bool:
        return any(True for inner in (self.together(), self.apart(), self.below()) for _ in inner)

    def together(self) -> Iterator[SchemaNode]:
        """The subschemas that apply to the same value and must hold with this one."""
        yield from self.all_of
        if self.ref is not None:
            yield self.ref

    def apart(self) -> Iterator[SchemaNode]:
        """The subschemas that apply to the same value, each with an answer of its own."""
        yield from self.any_of
        yield from self.one_of
        if self.negated is not None:
            yield self.negated

    def below(self) -> Iterator[SchemaNode]:
        """The subschemas that apply to parts of the value."""
        yield from self.properties.values()
        yield from self.prefix
        if self.additional is not None:
            yield self.additional
        if self.items is not None:
            yield self.items

    @property
    def key(self) -> bytes:
        """Equal keys mean equal behaviour: the content, or the document and the place in it where a `$ref` counts."""
        if self._key is None:
            self._key = self._digest()
        return self._key

    def _digest(self) -> bytes:
        if self.is_true or self.is_false:
            return blake3(b"true" if self.is_true else b"false").digest()
        if not self.has_ref or not self.path:
            return self.document.key if not self.path else blake3(canonical(self.raw)).digest()
        return blake3(b"within" + self.document.key + pointer.write(self.path).encode()).digest()
