"""How values, entries, changes and reports look: pure functions from what the client gives to sheets and lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.old_values import ClashSides, MergeValues, Places
from stemmadb.client.cli.safe_text import NOBODY, Viewer, compact, counted, note_text, operation_text, pretty
from stemmadb.client.cli.shapes import Column, Given, Shape, TextCell, TextLine, TextLines, TextTable, line, lines
from stemmadb.client.reading.branches import Branch, Tag
from stemmadb.client.reading.differences import Difference, EntityChange
from stemmadb.client.reading.entries import BlameLine, FactChange, HistoryEntry, LogEntry
from stemmadb.client.reading.merge import MergeClash, MergeReport, PlannedWrite
from stemmadb.client.reading.plain import part_of
from stemmadb.client.reading.undo import RevertReport
from stemmadb.client.watching import Change
from stemmadb.protocol.model.access.access_roles import Role
from stemmadb.protocol.model.history import difference as differences
from stemmadb.protocol.model.history.difference import Content, PathChange
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.patch import apply as apply_patch
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.ids import Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

CHANGES_SHOWN: Final = 200
"""How many entities of one change of a watch are shown; a program gets them all."""
MARKS: Final = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
ERASED_SIDES: Final = {
    "left": "the left value was erased",
    "right": "the right value was erased",
    "both": "both values were erased",
}

VERSION: Final = Column("VERSION", whole=True, right=True)
TIME: Final = Column("TIME", whole=True)
AUTHOR: Final = Column("AUTHOR", whole=True)


def value_lines(value: Value) -> TextLines:
    """The same over several lines, in colours."""
    return TextLines([line(TextCell(one, is_json=True)) for one in pretty(value).split("\n")])


def listing(values: Mapping[str, Value]) -> TextTable:
    """Entities by id, each in one line."""
    rows = [(clean(id_), TextCell(compact(value), is_json=True)) for id_, value in values.items()]
    return TextTable((Column("ID"), Column("VALUE", cut=True)), rows)


# ---------------------------------------------------------------- the past


def log(entries: Iterable[LogEntry], viewer: Viewer = NOBODY, *, branches: bool = False) -> TextTable:
    """The commits, one a row; with `branches` also where each was made."""
    columns = [VERSION, TIME, AUTHOR]
    where = [Column("BRANCH", whole=True)] if branches else []
    rest = [Column("FACTS", whole=True, right=True, spare=True), Column("NOTE")]
    rows: list[list[Given]] = []
    for entry in entries:
        branch = [clean(entry.branch or "")] if branches else []
        head = [_version(entry.version), viewer.time(entry.time), viewer.person(entry.author)]
        rows.append([*head, *branch, str(entry.facts_count), _what(entry)])
    return TextTable((*columns, *where, *rest), rows)


def log_with_facts(entries: Iterable[LogEntry], viewer: Viewer = NOBODY) -> TextLines:
    """The commits, each with what it wrote below it."""
    shown: list[TextLine] = []
    for entry in entries:
        head = (_version(entry.version), "  ", viewer.time(entry.time), "  ", viewer.person(entry.author))
        shown.append(line(*head, f"  {clean(entry.branch or '')}  ", _what(entry)))
        shown.extend(_fact_line(change) for change in entry.changes)
    return TextLines(shown)


def history(
    entries: Iterable[HistoryEntry], viewer: Viewer = NOBODY, places: Mapping[Version, Places] | None = None
) -> TextTable:
    """The changes of an entity, one a row, with the old and new values where they are known."""
    columns = (
        VERSION,
        TIME,
        AUTHOR,
        Column("CHANGE"),
        Column("NOTE"),
    )
    rows = [
        (
            _version(entry.version),
            viewer.time(entry.time),
            viewer.person(entry.author),
            _history_change(entry, (places or {}).get(entry.version)),
            TextCell(note_text(entry.note) or ("" if entry.made_by == "commit" else entry.made_by), "italic"),
        )
        for entry in entries
    ]
    return TextTable(columns, rows)


def _history_change(entry: HistoryEntry, places: Places | None) -> TextCell:
    if places and places[0].path != pointer.ROOT and not entry.gone:
        return TextCell("; ".join(map(place_text, places)), is_json=True)
    return _written(entry.kind, entry.value, entry.patch, gone=entry.gone)


def blame(blamed: Iterable[BlameLine], value: Value, viewer: Viewer = NOBODY) -> TextTable:
    """Who wrote each leaf of a value last."""
    columns = (
        Column("PATH"),
        Column("VALUE"),
        VERSION,
        TIME,
        AUTHOR,
        Column("NOTE", spare=True),
    )
    rows = [
        (
            clean(one.path) or "/",
            TextCell(compact(part_of(value, one.path)), is_json=True),
            *_blamed(one, viewer),
        )
        for one in blamed
    ]
    return TextTable(columns, rows)


def _blamed(line: BlameLine, viewer: Viewer) -> tuple[TextCell | str, ...]:
    if line.version is None or line.time is None or line.author is None:
        return "", "compacted", "", ""
    return (
        _version(line.version),
        viewer.time(line.time),
        viewer.person(line.author),
        TextCell(note_text(line.note), "italic"),
    )


def difference(found: Difference, places: Mapping[EntityId, Places] | None = None) -> TextLines:
    """What leads from the one state to the other, entity by entity; old and new values where they are known."""
    shown = [one for change in found for one in _change_lines(change, (places or {}).get(change.id))]
    return TextLines(shown or [line(f"Nothing differs between version {found.left} and version {found.right}.")])


# ---------------------------------------------------------------- branches and merges


def branches(found: Iterable[Branch]) -> TextTable:
    """The branches, one a row."""
    columns = (
        Column("BRANCH"),
        VERSION,
        Column("PARENT"),
        Column("FORK", whole=True, right=True),
        Column("STATE", whole=True),
    )
    rows = [
        (
            TextCell(clean(one.name), "bold"),
            _version(one.version),
            clean(one.parent or ""),
            str(one.fork) if one.parent else "",
            TextCell(f"deleted at {one.deleted}", "red") if one.deleted is not None else "",
        )
        for one in found
    ]
    return TextTable(columns, rows)


def tags(found: Iterable[Tag]) -> TextTable:
    """The tags, one a row."""
    columns = (Column("TAG"), Column("BRANCH"), VERSION)
    rows = [(TextCell(clean(one.name), "bold"), clean(one.branch), _version(one.version)) for one in found]
    return TextTable(columns, rows)


def roles(given: Mapping[Did, Role], viewer: Viewer = NOBODY) -> TextTable:
    """Who may do what; DIDs whole, since they are there to be copied."""
    rows = [(role, viewer.names.get(did, ""), did) for did, role in sorted(given.items(), key=lambda one: one[0])]
    return TextTable((Column("ROLE", whole=True), Column("NAME"), Column("DID")), rows)


def merge_report(
    report: MergeReport,
    *,
    source: str,
    target: str,
    dry_run: bool = False,
    values: MergeValues | None = None,
    why_nothing: str = "",
) -> list[Shape]:
    """What a merge did or would do, what it writes, and what both sides had changed."""
    values = values or MergeValues()
    if report.version is not None:
        did = f"Merged {source} into {target}: version {report.version}, {counted(report.writes_count, 'write')}."
    elif dry_run and report.writes_count:
        did = f"Merging {source} into {target} would write {counted(report.writes_count, 'entity', 'entities')}."
    elif report.conflicts_count:
        did = f"Merging {source} into {target} would write no entity: what both changed stays as it is on {target}."
    else:
        did = f"{target} has all that is on {source}; there is nothing to merge."
    shown: list[Shape] = [lines(line(clean(did)))]
    if why_nothing:
        shown.append(lines(line(clean(why_nothing))))
    if dry_run and report.writes:
        shown.append(planned(report.writes, report.writes_count, values.before))
    if report.conflicts_count:
        shown += clashes(report.conflicts, report.conflicts_count, values.sides)
    return shown


def clashes(
    found: Sequence[MergeClash],
    count: int,
    sides: Mapping[tuple[EntityId, str], ClashSides] | None = None,
    *,
    is_decided: bool = True,
) -> list[Shape]:
    """The places that both sides changed, with the value of each side, and which was taken if that is decided."""
    both = line(TextCell(f"Both sides changed {counted(count, 'place')}:", "yellow"))
    known = sides or {}
    below = [part for one in found for part in _clash_lines(one, known.get((one.id, one.path)), is_decided)]
    return [TextLines([both, *below]), *_rest(count - len(found))]


def _clash_lines(clash: MergeClash, sides: ClashSides | None, is_decided: bool) -> list[TextLine]:
    head = TextCell(f"  {clean(clash.id)} {clean(clash.path) or '/'}", "yellow")
    values = (None, None) if sides is None else tuple(compact(value) for value in sides)
    shown = [line(head, f"  taken: {clash.winner}" if is_decided else "")]
    for side, version, value in zip(("source", "target"), (clash.source, clash.target), values, strict=True):
        text = "" if value is None else f"  {value}"
        shown.append(line(f"    {side}@{version}", TextCell(text, is_json=True), cut=True))
    return shown


def planned(
    writes: Sequence[PlannedWrite], count: int, before: Mapping[EntityId, Content] | None = None
) -> TextLines:
    """What would be written, and what is there now."""
    shown = []
    for write in writes:
        old = (before or {}).get(write.id, Missing.COMPACTED)
        mark, style = ("-", "red") if write.kind == "delete" else ("~", "yellow")
        if old is Missing.ABSENT:
            mark, style = "+", "green"
        head = TextCell(f"{mark} {clean(write.id)}", style)
        shown.append(line(head, "  ", _planned_change(write, old), cut=True))
    return TextLines([*shown, *(one for rest in _rest(count - len(writes)) for one in rest.lines)])


def _planned_change(write: PlannedWrite, old: Content) -> TextCell:
    if isinstance(old, Missing):
        return _written(write.kind, write.value, write.patch, gone=False)
    if write.kind == "delete":
        return TextCell(f"{compact(old)} -> deleted", "red")
    new = apply_patch(old, write.patch) if write.patch is not None else write.value
    places = differences.entity(old, new)
    if not places or places[0].path == pointer.ROOT:
        return TextCell(f"{compact(old)} -> {compact(new)}", is_json=True)
    return TextCell("; ".join(map(place_text, places)), is_json=True)


def revert_report(
    report: RevertReport,
    *,
    dry_run: bool = False,
    before: Mapping[EntityId, Content] | None = None,
    why_nothing: str = "",
) -> list[Shape]:
    """What was taken back, or would be."""
    taken = ", ".join(map(str, report.reverted)) or "nothing"
    if dry_run and report.writes_count:
        would = line(f"This would take back {taken}: {counted(report.writes_count, 'write')}.")
        return [lines(would), planned(report.writes, report.writes_count, before)]
    if report.version is None:
        return [lines(line(clean(why_nothing) or "There is nothing left to take back."))]
    return [lines(line(f"Took back {taken} with version {report.version}."))]


def compaction_preview(floor: int, oldest: int, retained: Sequence[Tag], space: str) -> TextLines:
    """What a compaction to this version would make unreadable, of what can be read now."""
    if floor <= oldest:
        return lines(line(f"{space}: every version that can be read would stay readable, from {oldest} on."))
    older = counted(floor - oldest, "version")
    shown = [line(f"{space}: {older} below {floor} could no longer be read.")]
    if retained:
        names = ", ".join(f"{clean(tag.name)} ({tag.version})" for tag in retained)
        shown.append(line(f"{counted(len(retained), 'tag')} would stay readable: {names}."))
    return TextLines(shown)


# ---------------------------------------------------------------- what is happening


def change(changed: Change, when: datetime, viewer: Viewer = NOBODY, *, branch: str = "main") -> TextLines:
    """One change of a watch: when it was changed, and what entered, changed and left."""
    head = line(TextCell(f"{clean(branch)}@{changed.version}", "bold"), "  ", viewer.time(when), _counts(changed))
    entered = [_value_line("+", "green", id_, value) for id_, value in changed.entered.items()]
    updated = [_value_line("~", "yellow", id_, value) for id_, value in changed.updated.items()]
    left = [line(TextCell(f"  - {clean(id_)}", "red"), cut=True) for id_ in changed.left]
    below = [*entered, *updated, *left]
    more = [one for rest in _rest(len(below) - CHANGES_SHOWN) for one in rest.lines]
    return TextLines([head, *below[:CHANGES_SHOWN], *more])


def _counts(changed: Change) -> str:
    sizes = {"entered": len(changed.entered), "changed": len(changed.updated), "left": len(changed.left)}
    return "".join(f"  {count} {word}" for word, count in sizes.items() if count) or "  nothing is there"


def _value_line(mark: str, style: str, id_: str, value: Value) -> TextLine:
    return line(TextCell(f"  {mark} {clean(id_)}", style), "  ", TextCell(compact(value), is_json=True), cut=True)


# ---------------------------------------------------------------- pieces


def _version(version: int) -> TextCell:
    return TextCell(str(version), "bold")


def _what(entry: LogEntry) -> TextCell:
    """Why it was written; a write other than an ordinary commit says what it did."""
    note, details = note_text(entry.note), entry.details or {}
    if entry.kind == "commit":
        return TextCell(note, "italic")
    named = ("source", "name", "id", "versions", "floor")
    about = " ".join(_plain(details[name]) for name in named if details.get(name) is not None)
    did = f"{entry.kind} {about}".strip()
    return TextCell(f"{did}: {note}" if note else did, "magenta")


def _plain(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return clean(value) if isinstance(value, str) else compact(value)


def _written(kind: str, value: Value, patch: Sequence[Mapping[str, Value]] | None, *, gone: bool) -> TextCell:
    if gone:
        return TextCell("erased or compacted", "dim")
    if kind == "delete":
        return TextCell("deleted", "red")
    if patch is not None:
        return TextCell("; ".join(map(operation_text, patch)), is_json=True)
    return TextCell(compact(value), "dim" if kind == "checkpoint" else "", is_json=True)


def _fact_line(fact: FactChange) -> TextLine:
    what = _written(fact.kind, fact.value, fact.patch, gone=fact.gone)
    return line(f"    {fact.kind} ", TextCell(clean(fact.id), "bold"), "  ", what, cut=True)


def _change_lines(one: EntityChange, places: Places | None = None) -> list[TextLine]:
    mark, style = MARKS[one.kind]
    head = TextCell(f"{mark} {clean(one.id)}", style)
    if one.erased is not None:
        return [line(head, "  ", TextCell(ERASED_SIDES[one.erased], "dim"))]
    if one.patch is None:
        return [line(head, "  ", TextCell(compact(one.value), is_json=True))]
    if places:
        return [line(head), *(line("    ", TextCell(place_text(place), is_json=True)) for place in places)]
    return [line(head), *(line("    ", TextCell(operation_text(step), is_json=True)) for step in one.patch)]


def place_text(place: PathChange) -> str:
    """What a place was and is: `/done  false -> true`."""
    return f"{clean(place.path) or '/'}  {content_text(place.old)} -> {content_text(place.new)}"


def content_text(content: Content) -> str:
    if isinstance(content, Missing):
        return "nothing" if content is Missing.ABSENT else "erased or compacted"
    return compact(content)


def _rest(count: int) -> list[TextLines]:
    return [lines(line(TextCell(f"... and {count} more", "dim")))] if count > 0 else []
