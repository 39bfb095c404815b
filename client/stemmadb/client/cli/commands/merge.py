"""`stemmadb merge` and `stemmadb revert`: what is brought over, and what is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

import click

from stemmadb.client import DELETED, Space
from stemmadb.client.cli import explanations, layouts, old_values
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.commands.words import note_option, read_json
from stemmadb.client.cli.completer import complete_branches
from stemmadb.client.cli.connection import Target, branch_options, person, run, space_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.old_values import ClashSides, MergeValues, merge_values
from stemmadb.client.reading.merge import MergeClash, MergeOptions, MergeReport
from stemmadb.client.reading.plain import Given
from stemmadb.client.reading.undo import RevertOptions, RevertReport
from stemmadb.protocol.errors import MergeConflict
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.values.ids import MAIN, EntityId


@click.command()
@click.argument("source", shell_complete=complete_branches)
@click.option("--into", default=MAIN, show_default=True, metavar="BRANCH", shell_complete=complete_branches)
@click.option(
    "--strategy",
    type=click.Choice(get_args(Strategy)),
    default="lww",
    show_default=True,
    help="How conflicts are resolved: by last writer, by side, field by field, or not at all (exit 1).",
)
@click.option(
    "--resolve",
    "resolutions",
    multiple=True,
    metavar="ID=JSON",
    help="The value of a conflicting entity; ID= alone deletes it. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@note_option
@space_options
@click.pass_obj
def merge(
    shell: CliContext,
    target: Target,
    source: str,
    into: str,
    strategy: Strategy,
    resolutions: tuple[str, ...],
    dry_run: bool,
    note: str | None,
) -> dict[str, object]:
    """Bring what the branch SOURCE has to another, and show what both sides had changed.

    Exits with 1 if the strategy is 'fail' and there are conflicts; then nothing is written.

    Example: stemmadb merge draft --space todo --dry-run
    """
    options = MergeOptions(
        strategy=strategy, resolutions=dict(map(_resolution, resolutions)), dry_run=dry_run, note=note
    )

    async def work(space: Space) -> tuple[MergeReport, MergeValues, str]:
        onto = await space.branch(into)
        report = await (await space.branch(source)).merge_into(into, **options)
        why = "" if report.writes_count or report.version is not None else await explanations.no_merge(onto, source)
        return report, await merge_values(onto, source, report), why

    answer: dict[str, object] = {"source": source, "target": into, "dry_run": dry_run}
    try:
        report, values, why = run(target, work, writes=not dry_run)
    except MergeConflict as conflict:
        found = cast("tuple[MergeClash, ...]", conflict.facts["conflicts"])
        sides = run(target, lambda space: _sides(space, source, into, found))
        shell.show(*layouts.clashes(found, conflict.facts.get("count", len(found)), sides, is_decided=False))
        return shell.no(conflict, **answer, conflicts=[answers.of_clash(one) for one in found])
    shell.show(
        *layouts.merge_report(report, source=source, target=into, dry_run=dry_run, values=values, why_nothing=why)
    )
    return answer | answers.of_merge(report)


@click.command()
@click.argument("versions", type=click.IntRange(min=1), nargs=-1, metavar="[VERSION]...")
@click.option("--author", metavar="DID|NAME", help="Instead of versions: all commits of this identity.")
@click.option(
    "--after", type=click.IntRange(min=0), metavar="VERSION", help="With --author: only commits after this version."
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@note_option
@branch_options
@click.pass_obj
def revert(
    shell: CliContext,
    target: Target,
    versions: tuple[int, ...],
    author: str | None,
    after: int | None,
    dry_run: bool,
    note: str | None,
) -> dict[str, object]:
    """Take back the commits VERSION... of a branch by a new one. Refused where later commits touched the same places.

    Example: stemmadb revert 42 --space todo --note 'by mistake'
    """
    if bool(versions) == (author is not None):
        raise click.UsageError("Name the commits by their versions or by --author.")
    options = RevertOptions(dry_run=dry_run, note=note, since=after)
    if author is not None:
        options["author"] = person(target, author)

    async def work(space: Space) -> tuple[RevertReport, dict[EntityId, Content], str]:
        head = await space.at().settled()
        report = await explanations.revert(space, versions, **options)
        why = (
            "" if report.writes_count or report.version is not None else await explanations.no_revert(space, versions)
        )
        return report, await old_values.of_planned(space, head, report.writes), why

    report, before, why = run(target, work, writes=not dry_run)
    shell.show(*layouts.revert_report(report, dry_run=dry_run, before=before, why_nothing=why))
    return {
        "branch": target.branch,
        "version": report.version,
        "reverted": report.reverted,
        "dry_run": dry_run,
        "writes_count": report.writes_count,
        "writes": [answers.of_planned(one) for one in report.writes],
    }


async def _sides(
    space: Space, source: str, target: str, found: tuple[MergeClash, ...]
) -> Mapping[tuple[EntityId, str], ClashSides]:
    theirs, ours = await space.branch(source), await space.branch(target)
    return await old_values.of_clashes(theirs.at(), ours.at(), found)


def _resolution(text: str) -> tuple[str, Given]:
    id_, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is not ID=JSON.")
    return id_, read_json(value, f"The resolution of {id_!r}") if value else DELETED
