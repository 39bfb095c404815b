"""The commands that go through a server; the `stemmadb` command finds them by their entry point."""

import click

from stemmadb.client.cli.commands.access import acl
from stemmadb.client.cli.commands.bench import bench
from stemmadb.client.cli.commands.blobs import blob
from stemmadb.client.cli.commands.branching import branch, tag
from stemmadb.client.cli.commands.completion import completion
from stemmadb.client.cli.commands.keeping import compact, erase
from stemmadb.client.cli.commands.merging import merge, revert
from stemmadb.client.cli.commands.past import blame, diff, history, log
from stemmadb.client.cli.commands.reading import get, list_, query
from stemmadb.client.cli.commands.spaces import space
from stemmadb.client.cli.commands.status import status
from stemmadb.client.cli.commands.watching import watch
from stemmadb.client.cli.commands.writing import delete, set_

COMMANDS: list[click.Command] = [
    acl,
    bench,
    blame,
    blob,
    branch,
    compact,
    completion,
    delete,
    diff,
    erase,
    get,
    history,
    list_,
    log,
    merge,
    query,
    revert,
    set_,
    space,
    status,
    tag,
    watch,
]
