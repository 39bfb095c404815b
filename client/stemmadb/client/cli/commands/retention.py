"""`stemmadb compact` and `stemmadb erase`, through the server: making the past smaller."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

import click

from stemmadb.client import Space
from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands.words import note_option, read_json
from stemmadb.client.cli.completer import complete_ids
from stemmadb.client.cli.connection import Target, now, run, space_options, viewer
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.durations import read_duration
from stemmadb.client.cli.safe_text import counted
from stemmadb.client.reading.branches import Tag
from stemmadb.client.reading.entries import HistoryEntry
from stemmadb.client.reading.erasure import Compaction, Erasure
from stemmadb.protocol.errors import Compacted, FutureVersion, NotFound
from stemmadb.protocol.model.values.json_values import Value

COMPACT_QUESTION: Final = "Compact to {floor}? What only older versions need is removed and cannot be brought back."
ERASE_QUESTION: Final = "Erase what {id} held at {versions}, with every copy? It cannot be brought back."
OWED: Final = "No answer has it. Files of the server hold it until its operator runs: stemmadb scrub --rewrite"

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")


class _Floor(NamedTuple):
    """The oldest version that shall stay readable, and the oldest that can be read now; the tags that keep others."""

    did: str
    floor: int
    oldest: int
    head: int
    tags: tuple[Tag, ...]


@click.command()
@click.option("--floor", type=click.IntRange(min=0), help="The oldest version that can still be read.")
@click.option("--older-than", metavar="TIME", help="Instead of a version: keep what is newer than 30d, 12h or 2w.")
@dry_run_option
@yes_option
@note_option
@space_options
@click.pass_obj
def compact(
    shell: CliContext,
    target: Target,
    floor: int | None,
    older_than: str | None,
    dry_run: bool,
    yes: bool,
    note: str | None,
) -> dict[str, object]:
    """Drop what only versions below the floor need, and blobs that nothing refers to. This cannot be undone.

    Asks first; a script says --yes. Needs the role 'own'. Tags keep what they name.

    Example: stemmadb compact --space todo --older-than 30d
    """
    if (floor is None) == (older_than is None):
        raise click.UsageError("Name the floor with --floor or with --older-than.")
    asked = None if older_than is None else now() - timedelta(milliseconds=read_duration(older_than, least=0))
    found = run(target, lambda space: _floor(space, floor, asked))
    if dry_run:
        shell.show(layouts.compaction_preview(found.floor, found.oldest, found.tags, shell.named(found.did)))
        return {"space": found.did, "dry_run": True, "version": None, "floor": found.floor, "head": found.head}
    older = counted(max(found.floor - found.oldest, 0), "version")
    shell.confirm(COMPACT_QUESTION.format(floor=f"version {found.floor} ({older} more below it)"), yes=yes)

    async def work(space: Space) -> Compaction:
        with shell.progress() as show:
            show("compacting", 0, None)
            return await space.compact(found.floor, note=note)

    done = run(target, work, writes=True)
    went = f"{counted(done.bodies, 'body', 'bodies')} and {counted(done.blobs, 'blob')} removed"
    shell.say(f"{shell.named(found.did)}: compacted to {done.floor}, {went}")
    if done.owes_scrub:
        shell.say(OWED)
    return {
        "space": found.did,
        "dry_run": False,
        "version": done.version,
        "hash": done.hash,
        "floor": done.floor,
        "bodies": done.bodies,
        "blobs": done.blobs,
        "bytes": done.bytes,
        "owes_scrub": done.owes_scrub,
    }


async def _floor(space: Space, floor: int | None, time: datetime | None) -> _Floor:
    head = await space.at().settled()
    oldest = await _oldest(space)
    if floor is None:
        try:
            floor = await space.at(time=time).settled()
        except Compacted:
            floor = oldest  # nothing is as old as that
    if floor > head:
        raise FutureVersion(version=floor, head=head)
    tags = tuple(tag for tag in await space.tags.list() if tag.version < floor)
    return _Floor(space.did, max(floor, oldest), oldest, head, tags)


async def _oldest(space: Space) -> int:
    """The oldest version that can be read."""
    try:
        await space.at(version=1).get(space.did)
        return 1
    except Compacted as removed:
        return int(str(removed.facts["oldest"]))


@click.command()
@click.argument("id_", metavar="ID", shell_complete=complete_ids)
@click.option(
    "--version", "versions", type=click.IntRange(min=1), multiple=True, required=True, help="May be repeated."
)
@click.option(
    "--survivor",
    "survivors",
    multiple=True,
    metavar="BRANCH=JSON",
    help="The new value on a branch whose current value is erased; default: the entity is deleted there.",
)
@click.option("--blob", "blobs", multiple=True, metavar="REFERENCE", help="A blob to erase too; may be repeated.")
@dry_run_option
@yes_option
@note_option
@space_options
@click.pass_obj
def erase(  # noqa: PLR0913, PLR0917  # one for each option
    shell: CliContext,
    target: Target,
    id_: str,
    versions: tuple[int, ...],
    survivors: tuple[str, ...],
    blobs: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    note: str | None,
) -> dict[str, object]:
    """Destroy what the entity ID held at some versions, with every copy of it. This cannot be undone.

    Asks first; a script says --yes. Needs the role 'own'. The history still verifies: hashes stay.

    Example: stemmadb erase urn:person:7 --version 41 --survivor 'main={"name": null}' --space people
    """
    retained = dict(map(_survivor, survivors))

    if dry_run:
        return _preview(shell, target, id_, versions)
    shell.confirm(ERASE_QUESTION.format(id=id_, versions=", ".join(map(str, versions))), yes=yes)

    async def work(space: Space) -> tuple[str, Erasure]:
        with shell.progress() as show:
            show("erasing", 0, None)
            return space.did, await space.erase(id_, versions, survivors=retained, blobs=blobs, note=note)

    did, done = run(target, work, writes=True)
    erased = counted(done.erased, "body", "bodies")
    shell.say(f"{shell.named(did)}: {erased} of {id_} erased, version {done.version}")
    if done.owes_scrub:
        shell.say(OWED)
    return {
        "space": did,
        "id": id_,
        "dry_run": False,
        "version": done.version,
        "hash": done.hash,
        "erased": done.erased,
        "owes_scrub": done.owes_scrub,
    }


def _preview(shell: CliContext, target: Target, id_: str, versions: tuple[int, ...]) -> dict[str, object]:
    """The changes whose values an erasure would destroy."""

    async def work(space: Space) -> tuple[str, list[HistoryEntry], int]:
        entries = await space.history(id_).all()
        return space.did, [one for one in entries if one.version in versions], entries[0].version if entries else 0

    did, found, last = run(target, work)
    if not found:
        shown = ", ".join(map(str, versions))
        error = NotFound(f"{id_!r} was not written at {shown}. See 'stemmadb history {id_}'.", id=id_)
        return shell.no(error, space=did, id=id_, dry_run=True, erased=0)
    shell.say(f"{counted(len(found), 'change')} of {id_} would be erased, with every copy:")
    shell.show(layouts.history(found, viewer(target)))
    if last in versions:
        shell.say(
            "The value of now is among them: --survivor says what takes its place; without it the entity is deleted."
        )
    return {"space": did, "id": id_, "dry_run": True, "version": None, "erased": len(found)}


def _survivor(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is not BRANCH=JSON.")
    return name, read_json(value, f"What survives on {name!r}")
