"""Commands that write: set, patch, delete, merge, revert, undo, redo. A merge can also be tried without writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast, get_args

from stemmadb.client.cli import rendering
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.sheets import Cell, Lines, line
from stemmadb.client.cli.wording import clean, compact
from stemmadb.client.console.replies import Arguments, Command, Reply, said, whole_number
from stemmadb.client.console.state import State
from stemmadb.client.console.words import value_of
from stemmadb.client.reading.merging import MergeClash, MergeOptions
from stemmadb.client.reading.undoing import RevertReport
from stemmadb.client.space import Space
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.errors import MergeConflict
from stemmadb.protocol.model.commit import Strategy
from stemmadb.protocol.model.values import Value

STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)
CLASHES_SHOWN: Final = 20
"""Of how many conflicts both values are shown."""


async def _commit(state: State, given: Arguments, write: Callable[[Transaction], None]) -> Reply:
    """One commit, and its version. If it is refused, it stays in `rejected`."""
    state.check_writing()
    async with state.space.transaction(note=_note(given)) as tx:
        write(tx)
    version = await tx.confirmed()
    return said(f"Written as version {version}.", version=version)


def _note(given: Arguments) -> Value:
    return given.option("note")


async def set_(state: State, given: Arguments) -> Reply:
    id_, value = given.text(0), value_of(given.words[1])
    return await _commit(state, given, lambda tx: tx.set(id_, value, blind=given.has("blind")))


async def patch(state: State, given: Arguments) -> Reply:
    id_, operations = given.text(0), value_of(given.words[1])
    steps = cast("list[Mapping[str, Any]]", operations if isinstance(operations, list) else [operations])
    return await _commit(state, given, lambda tx: tx.patch(id_, steps, blind=given.has("blind")))


async def delete(state: State, given: Arguments) -> Reply:
    return await _commit(state, given, lambda tx: tx.delete(given.text(0), blind=given.has("blind")))


# ---------------------------------------------------------------- merges


async def merge(state: State, given: Arguments) -> Reply:
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
        shapes = [*rendering.clashes(found, len(found)), await _both_sides(found, source, into)] if found else []
        return Reply(shapes=shapes, data={"conflicts": list(map(answers.of_clash, found))}, error=error)
    shapes = rendering.merge_report(report, source=source, target=target, dry_run=dry_run)
    if report.conflicts and dry_run:
        shapes.append(await _both_sides(report.conflicts, source, into))
    ids = [write.id for write in report.writes]
    return Reply(shapes=shapes, data=answers.of_merge(report), ids=ids)


async def _both_sides(clashes: Sequence[MergeClash], source: str, target: Space) -> Lines:
    """What each side has in the places that both changed."""
    theirs = await target.branch(source)
    width = max(len(clean(source)), len(clean(target.branch_name)))
    lines = []
    for clash in clashes[:CLASHES_SHOWN]:
        lines.append(line(Cell(clean(f"{clash.id} {clash.path}".rstrip()), "yellow"), cut=True))
        for side in (theirs, target):
            value = await side.get(clash.id, clash.path)
            lines.append(
                line(f"    {clean(side.branch_name):<{width}}  ", Cell(compact(value), is_json=True), cut=True)
            )
    return Lines(lines)


def _strategy(given: Arguments) -> Strategy:
    wanted = given.option("strategy") or "lww"
    if wanted not in STRATEGIES:
        raise MERGE.misused(f"there is no strategy {wanted[:80]!r}, only {', '.join(STRATEGIES)}")
    return wanted


# ---------------------------------------------------------------- taking back


async def revert(state: State, given: Arguments) -> Reply:
    dry_run = given.has("dry-run")
    if not dry_run:
        state.check_writing()
    versions = [whole_number(word.text, "version") for word in given.words]
    report = await state.space.revert(versions, dry_run=dry_run, note=_note(given))
    return Reply(shapes=rendering.revert_report(report, dry_run=dry_run), data=_taken_back(report))


def _taken_back(report: RevertReport) -> dict[str, object]:
    writes = list(map(answers.of_planned, report.writes))
    return {"version": report.version, "reverted": report.reverted, "writes": writes}


async def undo(state: State, given: Arguments) -> Reply:
    state.check_writing()
    report = await state.space.undo(note=_note(given))
    if report is None:
        return said("There is nothing of this console to undo on this branch.")
    return Reply(shapes=rendering.revert_report(report), data=_taken_back(report))


async def redo(state: State, given: Arguments) -> Reply:
    state.check_writing()
    report = await state.space.redo(note=_note(given))
    if report is None:
        return said("There is nothing to bring back.")
    return said(f"Brought back with version {report.version}.", version=report.version)


MERGE: Final = Command(
    name="merge",
    usage="merge SOURCE [--into BRANCH] [--strategy lww|source|target|fields|fail] [--dry-run] [--note TEXT]",
    says="Brings what a branch has to this one; with --dry-run shows what that would do.",
    example="merge draft --dry-run",
    run=merge,
    takes=("branch",),
    least=1,
    most=1,
    options={"into": "branch", "strategy": "strategy", "dry-run": None, "note": "other"},
)
COMMANDS: Final = (
    MERGE,
    Command(
        name="set",
        usage="set ID VALUE [--blind] [--note TEXT]",
        says="Gives an entity a value, which is JSON.",
        example='set urn:todo:1 {"title": "write the spec", "done": false}',
        run=set_,
        takes=("id", "other"),
        least=2,
        most=2,
        options={"note": "other", "blind": None},
        writes=True,
    ),
    Command(
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
    Command(
        name="delete",
        usage="delete ID [--blind] [--note TEXT]",
        says="Takes an entity away; its past stays.",
        example="delete urn:todo:1",
        run=delete,
        takes=("id",),
        least=1,
        most=1,
        options={"note": "other", "blind": None},
        writes=True,
    ),
    Command(
        name="revert",
        usage="revert VERSION... [--dry-run] [--note TEXT]",
        says="Takes commits back with a new one; with --dry-run shows what that would write.",
        example="revert 42 --dry-run",
        run=revert,
        least=1,
        options={"dry-run": None, "note": "other"},
    ),
    Command(
        name="undo",
        usage="undo [--note TEXT]",
        says="Takes back the last commit of this console.",
        example="undo",
        run=undo,
        most=0,
        options={"note": "other"},
        writes=True,
    ),
    Command(
        name="redo",
        usage="redo [--note TEXT]",
        says="Brings back what the last undo took.",
        example="redo",
        run=redo,
        most=0,
        options={"note": "other"},
        writes=True,
    ),
)
