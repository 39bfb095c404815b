"""`stemmadb migrate` and `stemmadb scrub`: what an operator does to a PostgreSQL database."""

from __future__ import annotations

import click

from stemmadb.server.commands.database_access import connected, needed_storage_option
from stemmadb.server.commands.shared import CommandShell


@click.command()
@needed_storage_option
@click.pass_obj
def migrate(shell: CommandShell, storage: str) -> dict[str, object]:
    """Make a database of an older StemmaDB one of this version, in one transaction.

    Stop all nodes first: it refuses while one is alive. Nodes of an older version do not start afterwards.

    Example: stemmadb migrate --storage postgresql://stemma@db/stemma
    """
    with connected(storage) as connection:
        from stemmadb.server.storage.postgres import migration  # noqa: PLC0415  # psycopg is optional

        done = migration.migrate(connection)
    is_done = done.found != done.schema
    shell.say(f"migrated from schema {done.found} to {done.schema}" if is_done else f"schema {done.schema} already")
    return {"found": done.found, "schema": done.schema}


@click.command()
@needed_storage_option
@click.option("--rewrite", is_flag=True, help="Write the tables anew; each is locked meanwhile.")
@click.pass_obj
def scrub(shell: CommandShell, storage: str, rewrite: bool) -> dict[str, object]:
    """Make room in the files of a database where something was erased or compacted; --rewrite removes the bytes.

    Without --rewrite destroyed bytes stay in pages of the files until others are written there. WAL, standbys,
    archives and backups have them until they expire, in either case.

    Example: stemmadb scrub --rewrite --storage postgresql://stemma@db/stemma
    """
    with connected(storage) as connection:
        from stemmadb.server.storage.postgres import scrub as tables  # noqa: PLC0415

        done = tables.scrub(connection, rewrite=rewrite)
    for space in done.paid:
        shell.say(f"{shell.named(space)}: destroyed bytes are in no file of a table")
    for space in done.owing:
        shell.say(f"{shell.named(space)}: files may still hold destroyed bytes; see --rewrite")
    if not done.tables:
        shell.say("Nothing was destroyed since the last time.")
    return {"rewritten": rewrite, "tables": list(done.tables), "spaces": list(done.paid), "owing": list(done.owing)}
