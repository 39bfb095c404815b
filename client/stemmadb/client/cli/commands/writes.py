"""`stemmadb set` and `delete`: one commit each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import click

from stemmadb.client import Space, Transaction
from stemmadb.client.cli.commands.words import note_option, read_json_option
from stemmadb.client.cli.completer import complete_ids
from stemmadb.client.cli.connection import Target, branch_options, identity_of, run
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.own_access import confirm_giving_up, yes_option
from stemmadb.protocol import identity
from stemmadb.protocol.model.values.json_values import Value

blind_option = click.option("--blind", is_flag=True, help="Write without a version check: the last writer wins.")


@click.command("set")
@click.argument("id_", metavar="ID", shell_complete=complete_ids)
@click.argument("value", callback=read_json_option, metavar="VALUE|@FILE|-")
@click.option("--patch", is_flag=True, help="VALUE is a JSON Patch (RFC 6902): a list of operations.")
@click.option("--create", is_flag=True, help="Fail if the entity exists.")
@yes_option
@blind_option
@note_option
@branch_options
@click.pass_obj
def set_(  # noqa: PLR0913, PLR0917  # one for each option
    shell: CliContext,
    target: Target,
    id_: str,
    value: Value,
    patch: bool,
    create: bool,
    yes: bool,
    blind: bool,
    note: str | None,
) -> dict[str, object]:
    """Give the entity ID a value, which is JSON: written here, in a file (@FILE), or on standard input (-).

    Example: stemmadb set urn:todo:1 '{"title": "write the spec", "done": false}' --space todo
    """
    if patch + create + blind > 1 and not (patch and blind):
        raise click.UsageError("--create cannot be combined with --patch or --blind.")

    if id_.startswith(identity.PREFIX) and isinstance(value, dict):  # the access list of a space has its DID as id
        me = identity_of(target).did
        if me not in value:
            confirm_giving_up(shell, me, yes=yes)

    def write(tx: Transaction) -> None:
        if patch:
            tx.patch(id_, cast("list[dict[str, Any]]", value), blind=blind)
        elif create:
            tx.create(id_, value)
        else:
            tx.set(id_, value, blind=blind)

    if patch and not (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
        raise click.UsageError(
            'A patch is a list of operations: \'[{"op": "replace", "path": "/done", "value": true}]\'.'
        )
    return _committed(shell, target, id_, write, note, "written")


@click.command()
@click.argument("id_", metavar="ID", shell_complete=complete_ids)
@blind_option
@note_option
@branch_options
@click.pass_obj
def delete(shell: CliContext, target: Target, id_: str, blind: bool, note: str | None) -> dict[str, object]:
    """Delete the entity ID. Its history stays, and 'stemmadb revert' brings it back.

    Example: stemmadb delete urn:todo:1 --space todo --note 'done with it'
    """
    return _committed(shell, target, id_, lambda tx: tx.delete(id_, blind=blind), note, "deleted")


def _committed(
    shell: CliContext, target: Target, id_: str, write: Callable[[Transaction], None], note: str | None, did: str
) -> dict[str, object]:
    async def work(space: Space) -> int:
        async with space.transaction(note=note) as tx:
            write(tx)
        return await tx.confirmed()

    version = run(target, work, writes=True)
    shell.say(f"{id_} {did}: version {version} of {target.branch}")
    return {"id": id_, "branch": target.branch, "version": version}
