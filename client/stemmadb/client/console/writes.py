"""Commands that write: set, patch, delete, merge, revert, undo, redo. A merge can also be tried without writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast, get_args

from stemmadb.client.cli import explanations, layouts, old_values
from stemmadb.client.cli.commands import answers
from stemmadb.client.console.replies import Arguments, ConsoleCommand, ConsoleReply, said, whole_number
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.console.words import value_of
from stemmadb.client.reading.merge import MergeClash, MergeOptions
from stemmadb.client.reading.undo import RevertReport
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import MergeConflict
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.values.json_values import Value

STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)


async def _commit(state: ConsoleState, given: Arguments, write: Callable[[Transaction], None]) -> ConsoleReply:
    """One commit, and its version. If it is refused, it stays in `rejected`."""
    state.check_writing()
    async with state.space.transaction(note=_note(given)) as tx:
        write(tx)
    version = await tx.confirmed()
    return said(f"Written as version {version}.", version=version)


def _note(given: Arguments) -> Value:
    return given.option("note")


async def set_(state: ConsoleState, given: Arguments) -> ConsoleReply:
    id_, value = given.text(0), value_of(given.words[1])
    return await _commit(state, given, lambda tx: tx.set(id_, value, blind=given.has("blind")))


async def patch(state: ConsoleState, given: Arguments) -> ConsoleReply:
    id_, operations = given.text(0), value_of(given.words[1])
    steps = cast("list[Mapping[str, Any]]", operations if isinstance(operations, list) else [operations])
    return await _commit(state, given, lambda tx: tx.patch(id_, steps, blind=given.has("blind")))


async def delete(state: ConsoleState, given: Arguments) -> ConsoleReply:
    return await _commit(state, given, lambda tx: tx.delete(given.text(0), blind=given.has("blind")))


# ---------------------------------------------------------------- merges


async def merge(state: ConsoleState, given: Arguments) -> ConsoleReply:
    """With `--dry-run` it only tells what it would do, and needs no console that writes."""
    source, target, dry_run = given.text(0), given.option("into") or state.branch, given.has("dry-run")
    if not dry_run:
        state.check_writing()
    into = state.space if target == state.branch else await state.space.branch(target)
    options = MergeOptions(strategy=_strategy(given), dry_run=dry_run, note=_note(given))
    try:
        report = await into.merge_from(source, **options)
    except MergeConflict as error:
        found = cast("tuple[MergeClash, ...]", error.facts.get("conflicts", ()))
        theirs = (await into.branch(source)).at()
        sides = await old_values.of_clashes(theirs, into.at(), found)
        shapes = layouts.clashes(found, len(found), sides, is_decided=False) if found else []
        return ConsoleReply(shapes=shapes, data={"conflicts": list(map(answers.of_clash, found))}, error=error)
    why = "" if report.writes_count or report.version is not None else await explanations.no_merge(into, source)
    values = await old_values.merge_values(into, source, report)
    shapes = layouts.merge_report(
        report, source=source, target=target, dry_run=dry_run, values=values, why_nothing=why
    )
    ids = [write.id for write in report.writes]
    return ConsoleReply(shapes=shapes, data=answers.of_merge(report), ids=ids)


def _strategy(given: Arguments) -> Strategy:
    wanted = given.option("strategy") or "lww"
    if wanted not in STRATEGIES:
        raise MERGE.misused(f"has no strategy {wanted[:80]!r}, only {', '.join(STRATEGIES)}")
    return wanted


# ---------------------------------------------------------------- taking back


async def revert(state: ConsoleState, given: Arguments) -> ConsoleReply:
    dry_run = given.has("dry-run")
    if not dry_run:
        state.check_writing()
    versions = [whole_number(word.text, "version") for word in given.words]
    head = await state.space.at().settled()
    report = await explanations.revert(state.space, versions, dry_run=dry_run, note=_note(given))
    is_done = report.writes_count or report.version is not None
    why = "" if is_done else await explanations.no_revert(state.space, versions)
    before = await old_values.of_planned(state.space, head, report.writes)
    shapes = layouts.revert_report(report, dry_run=dry_run, before=before, why_nothing=why)
    return ConsoleReply(shapes=shapes, data=_taken_back(report))


def _taken_back(report: RevertReport) -> dict[str, object]:
    writes = list(map(answers.of_planned, report.writes))
    return {"version": report.version, "reverted": report.reverted, "writes": writes}


async def undo(state: ConsoleState, given: Arguments) -> ConsoleReply:
    state.check_writing()
    report = await state.space.undo(note=_note(given))
    if report is None:
        return said("There is nothing of this console to undo on this branch.")
    return ConsoleReply(shapes=layouts.revert_report(report), data=_taken_back(report))


async def redo(state: ConsoleState, given: Arguments) -> ConsoleReply:
    state.check_writing()
    report = await state.space.redo(note=_note(given))
    if report is None:
        return said("There is nothing to bring back.")
    return said(f"Brought back with version {report.version}.", version=report.version)


MERGE: Final = ConsoleCommand(
    name="merge",
    usage="merge SOURCE [--into BRANCH] [--strategy lww|source|target|fields|fail] [--dry-run] [--note TEXT]",
    says="Merges a branch into this one; with --dry-run shows what that would write.",
    example="merge draft --dry-run",
    run=merge,
    takes=("branch",),
    least=1,
    most=1,
    options={"into": "branch", "strategy": "strategy", "dry-run": None, "note": "other"},
)
COMMANDS: Final = (
    MERGE,
    ConsoleCommand(
        name="set",
        usage="set ID VALUE [--blind] [--note TEXT]",
        says="Sets an entity to a JSON value.",
        example='set urn:todo:1 {"title": "write the spec", "done": false}',
        run=set_,
        takes=("id", "other"),
        least=2,
        most=2,
        options={"note": "other", "blind": None},
        writes=True,
    ),
    ConsoleCommand(
        name="patch",
        usage="patch ID OPERATIONS [--blind] [--note TEXT]",
        says="Changes parts of an entity: JSON Patch, one operation or a list.",
        example='patch urn:todo:1 {"op": "replace", "path": "/done", "value": true}',
        run=patch,
        takes=("id", "other"),
        least=2,
        most=2,
        options={"note": "other", "blind": None},
        writes=True,
    ),
    ConsoleCommand(
        name="delete",
        usage="delete ID [--blind] [--note TEXT]",
        says="Deletes an entity; its history stays.",
        example="delete urn:todo:1",
        run=delete,
        takes=("id",),
        least=1,
        most=1,
        options={"note": "other", "blind": None},
        writes=True,
    ),
    ConsoleCommand(
        name="revert",
        usage="revert VERSION... [--dry-run] [--note TEXT]",
        says="Reverts commits with a new commit; with --dry-run shows what that would write.",
        example="revert 42 --dry-run",
        run=revert,
        least=1,
        options={"dry-run": None, "note": "other"},
    ),
    ConsoleCommand(
        name="undo",
        usage="undo [--note TEXT]",
        says="Undoes the last commit of this console.",
        example="undo",
        run=undo,
        most=0,
        options={"note": "other"},
        writes=True,
    ),
    ConsoleCommand(
        name="redo",
        usage="redo [--note TEXT]",
        says="Redoes what the last undo took back.",
        example="redo",
        run=redo,
        most=0,
        options={"note": "other"},
        writes=True,
    ),
)
