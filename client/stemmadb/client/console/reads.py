"""Commands that read values and the past: get, ls, query, log, history, diff, blame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stemmadb.client.cli import explanations, layouts, old_values
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.safe_text import counted
from stemmadb.client.cli.shapes import TextCell, TextLines, line
from stemmadb.client.console.replies import Arguments, ConsoleCommand, ConsoleReply
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.console.words import Word, value_of
from stemmadb.client.reading.entries import LogEntry
from stemmadb.client.reading.past import LogFilters
from stemmadb.client.reading.queries import Schema
from stemmadb.client.reading.windows import WindowOptions
from stemmadb.protocol import identity
from stemmadb.protocol.errors import InvalidQuery, InvalidSchema, NotFound
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.query.traversal import MISSING, resolve
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.json_values import Value

LISTED: Final = 50
"""How many entities are shown unless one asks for more."""
COMMITS_LISTED: Final = 20
IDS_MAX: Final = 200
"""How many ids of an answer are kept to be completed."""


def prefix_of(text: str) -> str:
    """A prefix as a selector: `urn:todo:` and `urn:todo:*` are the same."""
    return text if text.endswith(EVERY) else f"{text}{EVERY}"


def note_line(text: str) -> TextLines:
    return TextLines((line(TextCell(text, "dim")),))


# ---------------------------------------------------------------- values


async def get(state: ConsoleState, given: Arguments) -> ConsoleReply:
    id_, path = given.text(0), given.text(1) or given.option("path") or ""
    pointer.parse(path)
    value = await _value(state, id_)
    part = resolve(value, path)
    if part is MISSING:
        where = f"{clean(id_)!r} has nothing at {clean(path)!r} in {state.place}"
        raise NotFound(f"{where}. See its fields with 'get {clean(id_)}'.", id=id_, branch=state.branch)
    data = {"id": id_, "path": path, "branch": state.branch, "version": state.version, "value": part}
    return ConsoleReply(shapes=(layouts.value_lines(part),), data=data, ids=(id_,))


async def _value(state: ConsoleState, id_: str) -> Value:
    """The value, which may be null; `NotFound`, or `Erased`, if there is none."""
    found = await state.reader.query(id_)
    if id_ in found.entities:
        return found.entities[id_]
    if state.moment is not None:
        await state.moment.get(id_)  # raises if it was erased
    hint = f"See 'history {clean(id_)}', or 'ls' for what is there"
    raise NotFound(f"{clean(id_)!r} is not there in {state.place}. {hint}.", id=id_, branch=state.branch)


async def ls(state: ConsoleState, given: Arguments) -> ConsoleReply:
    prefix = prefix_of(given.text(0))
    found = await state.reader.list(prefix)
    return _listed(state, found, given.number("limit", LISTED), nothing=f"Nothing is under {clean(prefix)!r}")


async def query(state: ConsoleState, given: Arguments) -> ConsoleReply:
    written, schema = selector_and_schema(given)
    selector = await meant(state, written)
    window = window_of(given)
    found = await state.reader.query(selector, schema=schema, path=given.option("path") or "", **window)
    if given.has("nested"):
        nested = found.nested()
        data = {"branch": state.branch, "version": found.version, "values": nested}
        return ConsoleReply(shapes=tuple(map(layouts.value_lines, nested)), data=data)
    return _listed(state, found.entities, given.number("limit", LISTED), nothing="Nothing matches")


def window_of(given: Arguments) -> WindowOptions:
    """With an order only the first are asked for; the keys of an order are separated by commas."""
    order = given.option("order")
    if order is None:
        return {}
    return {"order": order.split(","), "limit": given.number("limit", LISTED)}


def selector_and_schema(given: Arguments) -> tuple[str, Schema | None]:
    """A selector, a schema, or both, in this order; the schema may be an option, as on the command line."""
    words = list(given.words)
    if (option := given.options.get("schema")) is not None:
        words.append(option)
    selector = words.pop(0).text if words and not _is_schema(words[0]) else EVERY
    if not words:
        return selector, None
    schema = value_of(words[0])
    if not isinstance(schema, bool | dict):
        raise InvalidSchema(path="", why="a schema is an object, or true")
    return selector, schema


async def meant(state: ConsoleState, selector: str) -> str:
    """An entity if there is one of this id, else a prefix: `urn:todo:1` and `urn:todo:` both work."""
    if not selector or selector.endswith(EVERY):
        return prefix_of(selector)
    found = await state.reader.query(selector)
    return selector if selector in found else prefix_of(selector)


def _is_schema(word: Word) -> bool:
    return word.raw.startswith("{") or word.raw in ("true", "false")


def _listed(state: ConsoleState, found: dict[str, Value], limit: int, *, nothing: str) -> ConsoleReply:
    data = {"branch": state.branch, "version": state.version, "entities": found}
    if not found:
        return ConsoleReply(shapes=(note_line(f"{nothing} in {state.place}."),), data=data)
    shown = dict(list(found.items())[:limit])
    more = len(found) - len(shown)
    rest = (note_line(f"... and {counted(more, 'more', 'more')}; use --limit {len(found)}"),) if more else ()
    return ConsoleReply(shapes=(layouts.listing(shown), *rest), data=data, ids=tuple(shown)[:IDS_MAX])


# ---------------------------------------------------------------- the past


async def log(state: ConsoleState, given: Arguments) -> ConsoleReply:
    limit = given.number("limit", COMMITS_LISTED)
    filters = _filters(state, given)
    entries = await state.space.log(**filters).all(limit=limit + 1)
    shown, more = entries[:limit], len(entries) > limit
    body = (
        layouts.log_with_facts(shown, state.viewer)
        if given.has("facts")
        else layouts.log(shown, state.viewer, branches=given.has("all"))
    )
    rest = [note_line(f"... older commits with --limit {limit * 5}")] if more else []
    if not given.words and not given.options and (why := explanations.skipped(shown, state.branch)):
        rest.append(note_line(why))
    shapes = (body, *rest) if shown else (note_line(f"No commit of {state.place} matches."),)
    return ConsoleReply(
        shapes=shapes,
        data={"entries": [answers.of_log(one, facts=given.has("facts")) for one in shown], "more": more},
        ids=_ids(shown),
    )


def _ids(entries: Iterable[LogEntry]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(change.id for entry in entries for change in entry.changes))[:IDS_MAX]


def _filters(state: ConsoleState, given: Arguments) -> LogFilters:
    filters = LogFilters(version=state.version, with_facts=given.has("facts"))
    if given.has("all"):
        filters["branch"] = None
    if prefix := given.text(0) or given.option("prefix"):
        filters["prefix"] = prefix.removesuffix(EVERY)
    if author := given.option("author"):
        filters["author"] = _person(state, author)
    if since := given.option("since"):
        filters["since"] = state.time(since)
    if until := given.option("until"):
        filters["until"] = state.time(until)
    return filters


def _person(state: ConsoleState, text: str) -> Did:
    """A DID, or a name that the key ring knows."""
    if text.startswith(identity.PREFIX):
        identity.public_key(text)
        return Did(text)
    for did, name in state.viewer.names.items():
        if name == text:
            return Did(did)
    raise InvalidQuery(f"Nobody is called {clean(text)!r} here. Write a did:key.", why="the author is not known")


async def history(state: ConsoleState, given: Arguments) -> ConsoleReply:
    id_, limit = given.text(0), given.number("limit", COMMITS_LISTED)
    found = await state.reader.history(id_).all(limit=limit + 1)
    shown = found[:limit]
    rest = (note_line(f"... older changes with --limit {limit * 5}"),) if len(found) > limit else ()
    places = await old_values.of_history(state.space, id_, shown)
    entries = [answers.of_history(one, places.get(one.version)) for one in shown]
    data = {"id": id_, "entries": entries, "more": len(found) > limit}
    return ConsoleReply(shapes=(layouts.history(shown, state.viewer, places), *rest), data=data, ids=(id_,))


async def diff(state: ConsoleState, given: Arguments) -> ConsoleReply:
    left = await state.side(given.text(0))
    right = state.pinned() if len(given.words) == 1 else await state.side(given.text(1))
    found = await state.space.diff(left, right, prefix=prefix_of(given.option("prefix") or ""))
    head = note_line(f"{clean(left.branch)}@{found.left} -> {clean(right.branch)}@{found.right}")
    ids = tuple(change.id for change in found)[:IDS_MAX]
    places = await old_values.of_difference(left, right, found)
    changes = [answers.of_entity_change(one, places.get(one.id)) for one in found]
    data = {"left": found.left, "right": found.right, "changes": changes}
    return ConsoleReply(shapes=(head, layouts.difference(found, places)), data=data, ids=ids)


async def blame(state: ConsoleState, given: Arguments) -> ConsoleReply:
    id_, path = given.text(0), given.text(1) or given.option("path") or ""
    moment = state.pinned()
    lines = await moment.blame(id_, path)
    value = await moment.get(id_)
    data = {"id": id_, "version": moment.version, "lines": list(map(answers.of_blame, lines))}
    return ConsoleReply(shapes=(layouts.blame(lines, value, state.viewer),), data=data, ids=(id_,))


COMMANDS: Final = (
    ConsoleCommand(
        name="get",
        usage="get ID [PATH] | get ID --path PATH",
        says="Shows a value, or the part of it at a path.",
        example="get urn:todo:1 /title",
        run=get,
        takes=("id", "other"),
        least=1,
        most=2,
        options={"path": "other"},
    ),
    ConsoleCommand(
        name="ls",
        usage="ls [PREFIX] [--limit N]",
        says="Lists the entities under a prefix.",
        example="ls urn:todo:",
        run=ls,
        takes=("prefix",),
        most=1,
        options={"limit": "other"},
    ),
    ConsoleCommand(
        name="query",
        usage="query [SELECTOR] [SCHEMA | --schema SCHEMA] [--nested] [--path P] [--order P,-P] [--limit N]",
        says="Finds entities that match a schema, and follows its links; --order -/rank shows the highest first.",
        example='query urn:todo:* {"properties": {"done": {"const": false}}}',
        run=query,
        takes=("prefix", "other"),
        most=2,
        options={"schema": "other", "nested": None, "path": "other", "order": "other", "limit": "other"},
    ),
    ConsoleCommand(
        name="log",
        usage="log [PREFIX | --prefix PREFIX] [--author WHO] [--since T] [--until T] [--limit N] [--facts] [--all]",
        says="Lists commits, newest first; --all includes all branches.",
        example='log urn:todo: --since "1 hour ago"',
        run=log,
        takes=("prefix",),
        most=1,
        options={
            "prefix": "prefix",
            "author": "author",
            "since": "moment",
            "until": "moment",
            "limit": "other",
            "facts": None,
            "all": None,
        },
    ),
    ConsoleCommand(
        name="history",
        usage="history ID [--limit N]",
        says="Lists the changes of an entity, newest first.",
        example="history urn:todo:1",
        run=history,
        takes=("id",),
        least=1,
        most=1,
        options={"limit": "other"},
    ),
    ConsoleCommand(
        name="diff",
        usage="diff A [B] [--prefix P]",
        says="Shows the changes from A to B, or to here; each is a moment, a branch or BRANCH@MOMENT.",
        example="diff 40 42",
        run=diff,
        takes=("moment", "moment"),
        least=1,
        most=2,
        options={"prefix": "prefix"},
    ),
    ConsoleCommand(
        name="blame",
        usage="blame ID [PATH] | blame ID --path PATH",
        says="Shows who wrote each field last.",
        example="blame urn:todo:1 /title",
        run=blame,
        takes=("id", "other"),
        least=1,
        most=2,
        options={"path": "other"},
    ),
)
