"""`watch`: what happens now, until it is stopped."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.safe_text import compact, counted, note_text
from stemmadb.client.cli.shapes import TextCell, TextLine, TextLines, line
from stemmadb.client.console.reads import IDS_MAX, meant, note_line, selector_and_schema, window_of
from stemmadb.client.console.replies import Arguments, ConsoleCommand, ConsoleReply
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.reading.entries import LogEntry
from stemmadb.client.reading.queries import Schema
from stemmadb.client.reading.windows import WindowOptions
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import InvalidQuery, StemmaError
from stemmadb.protocol.model.history import difference
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.json_values import Value

PLACES_SHOWN: Final = 12
"""Of an entity with more changed fields the whole value is shown."""


async def watch(state: ConsoleState, given: Arguments) -> ConsoleReply:
    """What is there first, and then each change with who made it."""
    if state.version is not None:
        hint = "a watch shows what happens now. Say 'at head' first"
        raise InvalidQuery(f"You are at version {state.version}: {hint}.", why=hint)
    written, schema = selector_and_schema(given)
    selector = await meant(state, written)
    window = window_of(given)
    if not window and given.has("limit"):
        window = {"limit": given.number("limit", 1)}
    stream = _stream(state, selector, schema, window, given.number("changes", 0))
    text = f"Watching {clean(selector)} on {clean(state.branch)}; q or Ctrl-C ends it."
    return ConsoleReply(shapes=(note_line(text),), stream=stream)


async def _stream(
    state: ConsoleState, selector: str, schema: Schema | None, window: WindowOptions, count: int
) -> AsyncGenerator[ConsoleReply, None]:
    watching = _Watching(state, selector)
    async with state.space.watch(selector, schema=schema, **window) as changes:
        async for change in changes:
            yield await watching.report(change)
            if watching.count == count:
                return


class _Watching:
    """What was told so far, so that a change can show what a field was before."""

    def __init__(self, state: ConsoleState, selector: str) -> None:
        self._state = state
        self._prefix = selector.removesuffix(EVERY)
        self._values: dict[str, Value] = {}
        self._seen = Version(0)
        self.count = 0

    async def report(self, change: Change) -> ConsoleReply:
        entry = await self._last(change.version)
        lines = [self._head(change, entry), *self._body(change)]
        self.count += 1
        self._values |= change.entered | change.updated
        for id_ in change.left:
            self._values.pop(id_, None)
        ids = (change.entered | change.updated).keys()
        return ConsoleReply(shapes=(TextLines(lines),), data=answers.of_change(change), ids=tuple(ids)[:IDS_MAX])

    async def _last(self, version: Version) -> LogEntry | None:
        """The commit that brought it; none for what was there, or for an own write that is not decided."""
        entry = None
        with suppress(StemmaError):
            entry = await self._state.space.log(version=version, prefix=self._prefix).first()
        is_new = entry is not None and self._seen < entry.version
        self._seen = version
        return entry if is_new and self.count else None

    def _head(self, change: Change, entry: LogEntry | None) -> TextLine:
        viewer, at = self._state.viewer, TextCell(f"{clean(self._state.branch)}@{change.version}", "bold")
        if entry is None:
            what = "" if self.count else f"  {counted(len(change.entered), 'entity', 'entities')} there"
            return line(at, "  ", viewer.time(self._state.now()), what)
        note = TextCell(note_text(entry.note), "italic")
        return line(at, "  ", viewer.time(entry.time), "  ", viewer.person(entry.author), "  ", note)

    def _body(self, change: Change) -> list[TextLine]:
        entered = [_entity("+", "green", id_, value) for id_, value in change.entered.items()]
        updated = [one for id_, value in change.updated.items() for one in self._updated(id_, value)]
        left = [line(TextCell(f"  - {clean(id_)}", "red"), cut=True) for id_ in change.left]
        body = [*entered, *updated, *left]
        more = len(body) - layouts.CHANGES_SHOWN
        rest = [line(TextCell(f"  ... and {more} more lines", "dim"))] if more > 0 else []
        return [*body[: layouts.CHANGES_SHOWN], *rest]

    def _updated(self, id_: str, value: Value) -> list[TextLine]:
        places = difference.entity(self._values.get(id_), value)
        if not places or len(places) > PLACES_SHOWN or places[0].path == pointer.ROOT:
            return [_entity("~", "yellow", id_, value)]
        return [line(TextCell(f"  ~ {clean(id_)}", "yellow"), cut=True), *map(_place, places)]


def _entity(mark: str, style: str, id_: str, value: Value) -> TextLine:
    return line(TextCell(f"  {mark} {clean(id_)}", style), "  ", TextCell(compact(value), is_json=True), cut=True)


def _place(one: difference.PathChange) -> TextLine:
    """What a field was and is."""
    return line("      ", TextCell(layouts.place_text(one), is_json=True), cut=True)


WATCH: Final = ConsoleCommand(
    name="watch",
    usage="watch [SELECTOR] [SCHEMA | --schema SCHEMA] [--order P,-P] [--limit N] [--changes N]",
    says="Shows changes as they happen, until q or Ctrl-C; --changes N stops after N changes.",
    example="watch urn:todo:",
    run=watch,
    takes=("prefix", "other"),
    most=2,
    options={"schema": "other", "order": "other", "limit": "other", "changes": "other"},
)
COMMANDS: Final = (WATCH,)
