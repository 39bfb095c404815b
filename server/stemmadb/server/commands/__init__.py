"""The commands that work on a data directory; the `stemmadb` command finds them by their entry point."""

import click

from stemmadb.server.commands.backups import backup, restore
from stemmadb.server.commands.looking import spaces, status
from stemmadb.server.commands.removing import compact, erase
from stemmadb.server.commands.serving import serve
from stemmadb.server.commands.streams import export, import_
from stemmadb.server.commands.verifying import verify

COMMANDS: list[click.Command] = [backup, compact, erase, export, import_, restore, serve, spaces, status, verify]
