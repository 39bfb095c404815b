"""The links that a schema reaches inside a value, and the schema that goes on with each (QUERY-2, QUERY-4)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from stemmadb.protocol.errors import InvalidSchema, LimitExceeded
from stemmadb.protocol.model.schema.compiled import Schema
from stemmadb.protocol.model.schema.compiler import compile_encoded, compiling, encoded
from stemmadb.protocol.model.schema.links import SIGIL, BrokenLink, EntityLink, link_of, reference
from stemmadb.protocol.model.schema.narrowing import EVERYTHING, Conjuncts, conjuncts, narrow
from stemmadb.protocol.model.schema.plan import Met, Plans, SchemaPlan, plans
from stemmadb.protocol.model.schema.work import SchemaRun, WorkBudget, begun, ended, refill, spend
from stemmadb.protocol.model.values.json_values import Value

Path: TypeAlias = tuple[str, ...]

_CONTAINERS: Final = frozenset((dict, list))
_WITH_TEXTS: Final = frozenset((dict, list, str))
_CHILD, _LINK, _OWN_SCHEMA = 10, 14, 20  # units of work


class Reached(msgspec.Struct, frozen=True):
    """A link at `path` inside the value, and what is asked of its target."""

    path: Path
    link: EntityLink | BrokenLink
    conjuncts: Conjuncts


def reach(narrowed: Conjuncts, value: Value, budget: WorkBudget | None = None) -> list[Reached]:
    """All links that the schema reaches inside the value, in the value's own order; none is followed.

    `LimitExceeded` if a link's own schema would make more conjuncts than there may be, or if it is too much work.
    """
    run = begun(budget)
    reaching = _Reaching(run)
    if not any(schema.is_false for schema in narrowed):
        reaching.walk(tuple(narrowed), value, ())
    ended(run)
    return reaching.found


class _Reaching(msgspec.Struct):
    """One walk through a value. What is cached elsewhere is paid for once in each walk, as if it were not cached."""

    run: SchemaRun
    found: list[Reached] = []
    met: Met = {}
    paid: set[Plans] = set()
    own: dict[bytes, Schema | str] = {}

    def walk(self, schemas: tuple[Schema, ...], value: Value, path: Path) -> None:
        if type(value) is str:
            if any(self._plan(schema, value).marked for schema in schemas):
                spend(self.run, _LINK)
                self.found.append(Reached(path, reference(value), EVERYTHING))
        elif type(value) is dict and SIGIL in value and (link := link_of(value)) is not None:
            self._arrive(frozenset(schemas), link, path)
        elif schemas[0].is_true:
            if type(value) in _CONTAINERS:
                self._walk_all(value, path)
        elif type(value) is dict or type(value) is list:
            self._walk_children(schemas, value, path)

    def _plan(self, schema: Schema, value: Value) -> SchemaPlan:
        known = plans(schema)
        if known not in self.paid:
            self.paid.add(known)
            spend(self.run, known.making)
        return known.at(value, self.run, self.met)

    def _walk_children(self, schemas: tuple[Schema, ...], value: dict[str, Value] | list[Value], path: Path) -> None:
        spend(self.run, 1 + (len(value) >> 1))
        if _WITH_TEXTS.isdisjoint(map(type, value.values() if isinstance(value, dict) else value)):
            return  # most of what is in a large value holds nothing to go on with
        here = [self._plan(schema, value) for schema in schemas]
        kinds = _WITH_TEXTS if any(plan.marks_below for plan in here) else _CONTAINERS
        units = _CHILD + sum(1 + plan.width for plan in here)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if type(item) in kinds:
                spend(self.run, units)
                below = [schema for plan in here if (schema := plan.child(key)) is not None]
                if len(below) == len(here):
                    inner = tuple(conjuncts(*below)) if len(below) > 1 else (below[0],)
                    self.walk(inner, item, (*path, str(key)))

    def _walk_all(self, value: Any, path: Path) -> None:
        """Below `true` everything is reached and nothing is marked; the value is a container and no link itself."""
        run = self.run
        run.left -= 3 + (len(value) >> 1)
        if run.left < 0:
            refill(run)
        for key, item in value.items() if type(value) is dict else enumerate(value):
            kind = type(item)
            if kind is dict and SIGIL in item and (link := link_of(item)) is not None:
                self._arrive(EVERYTHING, link, (*path, str(key)))
            elif kind is dict or kind is list:
                self._walk_all(item, (*path, str(key)))

    def _arrive(self, here: Conjuncts, link: EntityLink | BrokenLink, path: Path) -> None:
        run = self.run
        run.left -= _LINK + len(here)
        if run.left < 0:
            refill(run)
        if isinstance(link, BrokenLink) or link.schema is None:
            self.found.append(Reached(path, link, here))
            return
        own = self._compiled(encoded(link.schema))
        if isinstance(own, str):
            self.found.append(Reached(path, BrokenLink(id=link.id, why=own), here))
        elif not own.is_false:
            self.found.append(Reached(path, link, narrow(here, frozenset((own,)))))

    def _compiled(self, written: bytes) -> Schema | str:
        """A link's own schema, or why it is none; each that is different is paid for once."""
        spend(self.run, _OWN_SCHEMA + (len(written) >> 4))
        found = self.own.get(written)
        if found is None:
            spend(self.run, compiling(written))
            try:
                found = compile_encoded(written)
            except (InvalidSchema, LimitExceeded) as bad:
                found = bad.message
            self.own[written] = found
        return found
