"""`stemmadb blob`: bytes under the name of their hash, sent and fetched with a progress bar."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, Final, cast

import click

from stemmadb.client import Space
from stemmadb.client.cli.connection import Target, run, space_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.group import NamedCommands
from stemmadb.client.reading.blobs import BlobRef

STANDARD: Final = "-"


@click.group(cls=NamedCommands)
def blob() -> None:
    """Store and fetch files, which values refer to by their hash.

    Example: stemmadb blob put photo.jpg --space photos
    """


@blob.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--type", "content_type", metavar="TYPE", help="The content type; guessed from the file name by default."
)
@space_options
@click.pass_obj
def put(shell: CliContext, target: Target, file: str, content_type: str | None) -> dict[str, object]:
    """Store FILE, or with '-' standard input, and print the name that values refer to it by.

    Example: stemmadb blob put photo.jpg --space photos
    """

    def stored_from(data: Path | BinaryIO) -> BlobRef:
        async def work(space: Space) -> BlobRef:
            with shell.progress() as show:
                return await space.blobs.put(
                    data, content_type=content_type, progress=lambda done, total: show("sending", done, total)
                )

        return run(target, work, writes=True)

    if file == STANDARD:
        with tempfile.TemporaryFile() as waiting:  # read here and now, where Ctrl-C can end it
            shutil.copyfileobj(sys.stdin.buffer, waiting)
            waiting.seek(0)
            stored = stored_from(cast("BinaryIO", waiting))
    else:
        stored = stored_from(Path(file))
    shell.say(stored.hash)
    return {"hash": stored.hash, "size": stored.size, "content_type": stored.content_type}


@blob.command()
@click.argument("hash_", metavar="HASH")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@space_options
@click.pass_obj
def get(shell: CliContext, target: Target, hash_: str, file: str, force: bool) -> dict[str, object] | None:
    """Fetch a blob, verified, into FILE, which appears whole or not at all; with '-' to standard output.

    Example: stemmadb blob get b3:... copy.jpg --space photos
    """
    if file == STANDARD and shell.is_json:
        raise click.UsageError("With --json, name a file for the bytes.")
    if file != STANDARD and not force and Path(file).exists():
        raise click.UsageError(f"{file!r} exists; nothing was written. Choose another name or use --force.")

    async def work(space: Space) -> None:
        with shell.progress() as show:

            def report(done: int, total: int) -> None:
                show("fetching", done, total)

            if file == STANDARD:
                async for piece in space.blobs.stream(hash_, progress=report):
                    sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
            else:
                await space.blobs.get(hash_, to=Path(file), progress=report)

    run(target, work)
    return None if file == STANDARD else {"hash": hash_, "file": file, "size": Path(file).stat().st_size}
