"""`stemmadb compact` and `stemmadb erase`, through the server: making the past smaller."""

from __future__ import annotations

import click

from stemmadb.client import Space
from stemmadb.client.cli.commands.words import note_option, read_json
from stemmadb.client.cli.completer import complete_ids
from stemmadb.client.cli.connection import Target, run, space_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.reading.erasure import Compaction, Erasure
from stemmadb.protocol.model.values.json_values import Value


@click.command()
@click.option("--floor", type=click.IntRange(min=0), required=True, help="The oldest version that can still be read.")
@note_option
@space_options
@click.pass_obj
def compact(shell: CliContext, target: Target, floor: int, note: str | None) -> dict[str, object]:
    """Drop what only versions below the floor need, and blobs that nothing refers to. This cannot be undone.

    Needs the role 'own'. Tags keep what they name.

    Example: stemmadb compact --space todo --floor 1000
    """

    async def work(space: Space) -> tuple[str, Compaction]:
        with shell.progress() as show:
            show("compacting", 0, None)
            return space.did, await space.compact(floor, note=note)

    did, done = run(target, work, writes=True)
    shell.say(f"{did}: compacted to {done.floor}, {done.bodies} bodies and {done.blobs} blobs are gone")
    return {
        "space": did,
        "version": done.version,
        "hash": done.hash,
        "floor": done.floor,
        "bodies": done.bodies,
        "blobs": done.blobs,
        "bytes": done.bytes,
    }


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
@note_option
@space_options
@click.pass_obj
def erase(
    shell: CliContext,
    target: Target,
    id_: str,
    versions: tuple[int, ...],
    survivors: tuple[str, ...],
    blobs: tuple[str, ...],
    note: str | None,
) -> dict[str, object]:
    """Destroy what the entity ID held at some versions, with every copy of it. This cannot be undone.

    Needs the role 'own'. The history still verifies: hashes stay.

    Example: stemmadb erase urn:person:7 --version 41 --survivor 'main={"name": null}' --space people
    """
    kept = dict(map(_survivor, survivors))

    async def work(space: Space) -> tuple[str, Erasure]:
        with shell.progress() as show:
            show("erasing", 0, None)
            return space.did, await space.erase(id_, versions, survivors=kept, blobs=blobs, note=note)

    did, done = run(target, work, writes=True)
    shell.say(f"{did}: {done.erased} bodies of {id_} are gone, version {done.version}")
    return {"space": did, "id": id_, "version": done.version, "hash": done.hash, "erased": done.erased}


def _survivor(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is not BRANCH=JSON.")
    return name, read_json(value, f"What survives on {name!r}")
