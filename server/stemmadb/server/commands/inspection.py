"""`stemmadb space list` and `stemmadb status`: what is in a data directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.database_access import GivenDatabase, database, storage_option
from stemmadb.server.commands.report import CommandReport
from stemmadb.server.commands.running_server import ask
from stemmadb.server.commands.shared import (
    CommandShell,
    data_option,
    reading,
    reading_all,
    showing_progress,
    shown,
)
from stemmadb.server.serving import presence
from stemmadb.server.serving.ownership.worker_ownership import worker_of
from stemmadb.server.storage.directory import is_held
from stemmadb.server.storage.port import Storage
from stemmadb.server.storage.sqlite import sqlite_version


@click.group()
def space() -> None:
    """List the spaces of a data directory or a database.

    Example: stemmadb space list --data ./data
    """


@space.command("list")
@data_option
@storage_option
@click.pass_obj
def spaces(shell: CommandShell, data: Path, storage: GivenDatabase | None) -> dict[str, object]:
    """List the spaces of a data directory or a database, either of which may be in use.

    Example: stemmadb space list --data ./data
    """
    report = CommandReport(shell, looks=True)
    with showing_progress(shell), reading_all(data, storage) as opened:
        for space in opened.spaces():
            report.take(space, partial(_described, shell, opened, space))
    for one in report.good:
        shell.say(f"{shell.named(str(one['space']))}  version {one['version']}")
    if not report.spaces:
        shell.say(f"There are no spaces in {storage.url if storage else data}.")
    return report.answer()


@click.command()
@data_option
@storage_option
@click.pass_obj
def status(shell: CommandShell, data: Path, storage: GivenDatabase | None) -> dict[str, object]:
    """Show the state of a data directory, which may be in use: versions, sizes, who holds it, and how that server is.

    With --storage: the nodes of a database, which node owns each space, and where destroyed bytes are still in files.

    Example: stemmadb status --data ./data
    """
    report = CommandReport(shell, looks=True)
    if storage is not None:
        return _database_status(shell, report, storage)
    with showing_progress(shell), reading(data) as directory:
        for space in directory.spaces():
            report.take(space, partial(_measured, shell, directory, data, space))
    locked = is_held(data)
    server = _server(data, [Did(str(one["space"])) for one in report.good])
    shell.say(f"data      {data}{' (in use)' if locked else ''}")
    shell.say(f"sqlite    {sqlite_version()}")
    for line in _server_lines(server):
        shell.say(line)
    for one in report.good:
        sizes = f"{one['bytes']} bytes, {one['blob_bytes']} in blobs"
        shell.say(f"{shell.named(str(one['space']))}  version {one['version']}, {sizes}")
    return report.answer(data=str(data), held=locked, sqlite=sqlite_version(), server=server)


def _database_status(shell: CommandShell, report: CommandReport, url: GivenDatabase) -> dict[str, object]:
    with showing_progress(shell), database(url) as storage:
        found = storage.status()
        owing = set(storage.owing_scrub())
        for space in storage.spaces():
            report.take(space, partial(_owned, shell, storage, space, found.owners.get(space)))
    durability = "a standby too" if found.has_standby else "this server alone"
    shell.say(f"database  PostgreSQL {found.version}, acknowledged on {durability}")
    for address, left_ms in found.nodes:
        shell.say(f"node      {address or 'without an address'}, alive for {left_ms} ms more")
    for one in report.good:
        owner = f"owned by {one['owner']}" if one["owner"] else "owned by nobody"
        scrub = ", files may hold destroyed bytes" if one["space"] in owing else ""
        shell.say(f"{shell.named(str(one['space']))}  version {one['version']}, {owner}{scrub}")
    return report.answer(
        postgresql=found.version,
        has_standby=found.has_standby,
        nodes=[{"address": address, "left_ms": left_ms} for address, left_ms in found.nodes],
        owing_scrub=sorted(owing),
    )


def _owned(shell: CommandShell, storage: Storage, space: Did, owner: str | None) -> dict[str, object]:
    return _described(shell, storage, space) | {"owner": owner}


def _server(data: Path, spaces: Sequence[Did]) -> dict[str, object] | None:
    """The server that runs there, if one does; with the number of spaces of each worker."""
    found = presence.find(data)
    if found is None:
        return None
    divided = Counter(worker_of(space, len(found.workers)) for space in spaces if found.workers)
    workers = [
        {"worker": int(number), "pid": pid, "spaces": divided[int(number)]} for number, pid in found.workers.items()
    ]
    return ask(found) | ({"workers": workers} if workers else {})


def _server_lines(server: dict[str, object] | None) -> list[str]:
    if server is None:
        return []
    health = "ready" if server["ready"] else f"not ready: {server['says']}"
    numbers = [
        f"{server[name]} {name}" for name in ("connections", "sessions", "watches", "commits") if name in server
    ]
    return [
        f"server    process {server['pid']}, {server['host']} port {server['port']}, {health}",
        f"identity  {server['did']}",
        *_worker_lines(server.get("workers")),
        *([f"now       {', '.join(numbers)}"] if numbers else []),
    ]


def _worker_lines(workers: object) -> list[str]:
    if not isinstance(workers, list):
        return []
    return [f"worker {one['worker']}  process {one['pid']}, {one['spaces']} spaces" for one in workers]


def _described(shell: CommandShell, storage: Storage, space: Did) -> dict[str, object]:
    log = storage.open(space)
    try:
        with log.reader() as reader:
            tip = reader.tip()
            return {
                "space": space,
                "name": shell.name_of(space),
                "version": tip.version,
                "hash": shown(tip.hash),
                "time": tip.time,
            }
    finally:
        log.close()


def _measured(shell: CommandShell, storage: Storage, data: Path, space: Did) -> dict[str, object]:
    return _described(shell, storage, space) | _sizes(data, space)


def _sizes(data: Path, space: Did) -> dict[str, object]:
    """The bytes of the log, what is beside it included, and of the blobs that are files."""
    folder = data / "spaces" / space
    return {
        "bytes": sum(file.stat().st_size for file in folder.glob("space.db*")),
        "blob_bytes": sum(file.stat().st_size for file in folder.glob("blobs/*")),
    }
