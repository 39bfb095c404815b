"""`watch`: what happens now, until it is stopped."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from stemmadb.client.cli import rendering
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.sheets import Cell, Line, Lines, line
from stemmadb.client.cli.wording import clean, compact, counted, note_text
from stemmadb.client.console.browsing import IDS_KEPT, meant, note_line, selector_and_schema
from stemmadb.client.console.replies import Arguments, Command, Reply
from stemmadb.client.console.state import State
from stemmadb.client.reading.entries import LogEntry
from stemmadb.client.reading.queries import Schema
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import InvalidQuery, StemmaError
from stemmadb.protocol.model import difference, pointer
from stemmadb.protocol.model.ids import Version
from stemmadb.protocol.model.query import EVERY
from stemmadb.protocol.model.state import Missing
from stemmadb.protocol.model.values import Value

PLACES_SHOWN: Final = 12
"""Of an entity with more changed fields the whole value is shown."""


async def watch(state: State, given: Arguments) -> Reply:
    """What is there first, and then each change with who made it."""
    if state.version is not None:
        hint = "a watch shows what happens now. Say 'at head' first"
        raise InvalidQuery(f"You are at version {state.version}: {hint}.", why=hint)
    written, schema = selector_and_schema(given)
    selector = await meant(state, written)
    stream = _told(state, selector, schema, given.number("changes", 0))
    told = f"Watching {clean(selector)} on {clean(state.branch)}; q or Ctrl-C ends it."
    return Reply(shapes=(note_line(told),), stream=stream)


async def _told(state: State, selector: str, schema: Schema | None, count: int) -> AsyncGenerator[Reply, None]:
    watching = _Watching(state, selector)
    async with state.space.watch(selector, schema=schema) as changes:
        async for change in changes:
            yield await watching.tell(change)
            if watching.count == count:
                return


class _Watching:
    """What was told so far, so that a change can show what a field was before."""

    def __init__(self, state: State, selector: str) -> None:
        self._state = state
        self._prefix = selector.removesuffix(EVERY)
        self._held: dict[str, Value] = {}
        self._seen = Version(0)
        self.count = 0

    async def tell(self, change: Change) -> Reply:
        entry = await self._last(change.version)
        lines = [self._head(change, entry), *self._body(change)]
        self.count += 1
        self._held |= change.entered | change.updated
        for id_ in change.left:
            self._held.pop(id_, None)
        told = (change.entered | change.updated).keys()
        return Reply(shapes=(Lines(lines),), data=answers.of_change(change), ids=tuple(told)[:IDS_KEPT])

    async def _last(self, version: Version) -> LogEntry | None:
        """The commit that brought it; none for what was there, or for an own write that is not decided."""
        entry = None
        with suppress(StemmaError):
            entry = await self._state.space.log(version=version, prefix=self._prefix).first()
        is_new = entry is not None and self._seen < entry.version
        self._seen = version
        return entry if is_new and self.count else None

    def _head(self, change: Change, entry: LogEntry | None) -> Line:
        viewer, at = self._state.viewer, Cell(f"{clean(self._state.branch)}@{change.version}", "bold")
        if entry is None:
            what = "" if self.count else f"  {counted(len(change.entered), 'entity', 'entities')} there"
            return line(at, "  ", viewer.time(self._state.now()), what)
        note = Cell(note_text(entry.note), "italic")
        return line(at, "  ", viewer.time(entry.time), "  ", viewer.person(entry.author), "  ", note)

    def _body(self, change: Change) -> list[Line]:
        entered = [_entity("+", "green", id_, value) for id_, value in change.entered.items()]
        updated = [one for id_, value in change.updated.items() for one in self._updated(id_, value)]
        left = [line(Cell(f"  - {clean(id_)}", "red"), cut=True) for id_ in change.left]
        body = [*entered, *updated, *left]
        more = len(body) - rendering.CHANGES_SHOWN
        rest = [line(Cell(f"  ... and {more} more lines", "dim"))] if more > 0 else []
        return [*body[: rendering.CHANGES_SHOWN], *rest]

    def _updated(self, id_: str, value: Value) -> list[Line]:
        places = difference.entity(self._held.get(id_), value)
        if not places or len(places) > PLACES_SHOWN or places[0].path == pointer.ROOT:
            return [_entity("~", "yellow", id_, value)]
        return [line(Cell(f"  ~ {clean(id_)}", "yellow"), cut=True), *map(_place, places)]


def _entity(mark: str, style: str, id_: str, value: Value) -> Line:
    return line(Cell(f"  {mark} {clean(id_)}", style), "  ", Cell(compact(value), is_json=True), cut=True)


def _place(one: difference.PathChange) -> Line:
    """What a field was and is."""
    before, after = (Cell(_content(content), is_json=True) for content in (one.old, one.new))
    return line(f"      {clean(one.path)}  ", before, " -> ", after, cut=True)


def _content(content: difference.Content) -> str:
    return "nothing" if isinstance(content, Missing) else compact(content)


WATCH: Final = Command(
    name="watch",
    usage="watch [SELECTOR] [SCHEMA] [--changes N]",
    says="Shows what happens as it happens, until q or Ctrl-C; --changes ends it after so many.",
    example="watch urn:todo:",
    run=watch,
    takes=("prefix", "other"),
    most=2,
    options={"changes": "other"},
)
COMMANDS: Final = (WATCH,)
