"""`stemmadb compact` and `stemmadb erase`, on a data directory that nobody holds or a space that no node serves."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import click

from stemmadb.protocol.errors import InvalidValue
from stemmadb.protocol.model.commit.request import digest_request
from stemmadb.protocol.model.log.commit_record import OperationIdentity
from stemmadb.protocol.model.values import json_values, reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import (
    MAIN,
    RANDOM_ID_BYTES,
    BranchName,
    Did,
    EntityId,
    Hash,
    TimeMs,
    Version,
    branch_name,
    entity_id,
)
from stemmadb.protocol.model.values.limits import DEFAULTS as LIMITS
from stemmadb.server.commands.database_access import GivenDatabase, claim, storage_options, writable_database
from stemmadb.server.commands.shared import (
    CommandShell,
    data_option,
    dry_run_option,
    now,
    one_space_option,
    read_did,
    showing_progress,
    shown,
    yes_option,
)
from stemmadb.server.counters import Counts
from stemmadb.server.engine.base import moments, states
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.settings import DEFAULTS as SETTINGS
from stemmadb.server.engine.base.space_port import Asked, SpaceApi
from stemmadb.server.engine.plan import compaction, erasure
from stemmadb.server.engine.store import Store
from stemmadb.server.maintenance.progress import MaintenanceProgress
from stemmadb.server.open_store import open_store, store_on
from stemmadb.server.storage.port import LogReader

INTERRUPTED: Final = "It may be done, in part or not at all: the log holds it, or does not. Run it again to be sure."

COMPACT_QUESTION: Final = "Compact to {floor}? What only older versions need is removed and cannot be brought back."
ERASE_QUESTION: Final = "Erase what {id} held at {versions}, with every copy? It cannot be brought back."
OWED: Final = (
    "No answer has it. Files of the database may hold it until you run: stemmadb scrub --rewrite --storage ..."
)
COUNTED: Final = (("bodies", "body", "bodies"), ("blobs", "blob", "blobs"))
Clock: TypeAlias = Callable[[], TimeMs]
Work: TypeAlias = Callable[[SpaceApi, Clock], Awaitable[dict[str, object]]]
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

as_option = click.option(
    "--as",
    "principal",
    callback=read_did,
    metavar="DID",
    help="The owner that acts; default: the first owner in the access list.",
)


@click.command()
@data_option
@storage_options
@one_space_option
@click.option("--floor", type=click.IntRange(min=0), help="The oldest version that can still be read.")
@click.option("--older-than", metavar="TIME", help="Instead of a version: keep what is newer than 30d, 12h or 2w.")
@dry_run_option
@yes_option
@as_option
@click.pass_obj
def compact(  # noqa: PLR0913, PLR0917  # one for each option
    shell: CommandShell,
    data: Path,
    storage: GivenDatabase | None,
    space: Did,
    floor: int | None,
    older_than: str | None,
    dry_run: bool,
    yes: bool,
    principal: Did | None,
) -> dict[str, object]:
    """Drop what only versions below the floor need, and blobs that nothing refers to. This cannot be undone.

    No process may be using the directory, or with --storage serving the space. Versions that a tag names stay
    readable.

    Example: stemmadb compact --data ./data --space did:key:z6Mk... --floor 1000
    """
    age = _older_than(floor, older_than)
    if not dry_run:
        shell.confirm(COMPACT_QUESTION.format(floor=_asked_floor(floor, older_than)), yes=yes)

    async def work(opened: SpaceApi, clock: Clock) -> dict[str, object]:
        version = await _version_at(opened, TimeMs(clock() - age)) if floor is None else Version(floor)
        asked = await _asked(opened, principal, ("compact", version))
        if dry_run:
            plan = await compaction.preview(opened, asked, version, now=clock())
            counts = {"bodies": len(plan.places), "blobs": len(plan.unreferenced), "snapshots": plan.snapshots}
            return {"space": space, "dry_run": True, "version": None, "floor": version, **counts}
        done = await compaction.compact(opened, asked, version, now=clock())
        return {
            "space": space,
            "dry_run": False,
            "version": done.version,
            "hash": shown(done.hash),
            "floor": done.floor,
            "bodies": done.bodies,
            "blobs": done.blobs,
            "snapshots": done.snapshots,
        }

    answer = _run(shell, data, storage, space, "compacting", work)
    counts = " and ".join(shell.counted(int(str(answer[key])), one, many) for key, one, many in COUNTED)
    did = "would be compacted" if dry_run else "compacted"
    removed = "would go" if dry_run else "removed"
    shell.say(f"{shell.named(space)}: {did} to {answer['floor']}, {counts} {removed}")
    if answer["owes_scrub"]:
        shell.say(OWED)
    return answer


@click.command()
@click.argument("id_", metavar="ID", callback=lambda _ctx, _option, text: entity_id(text))
@data_option
@storage_options
@one_space_option
@click.option(
    "--version", "versions", type=click.IntRange(min=1), multiple=True, required=True, help="May be repeated."
)
@click.option(
    "--survivor",
    "survivors",
    multiple=True,
    metavar="BRANCH=JSON",
    help="The new value on a branch where the current value is erased; default: the entity is deleted there.",
)
@click.option("--blob", "blobs", multiple=True, metavar="REFERENCE", help="A blob to erase too; may be repeated.")
@dry_run_option
@yes_option
@as_option
@click.pass_obj
def erase(  # noqa: PLR0913, PLR0917  # one for each option
    shell: CommandShell,
    id_: EntityId,
    data: Path,
    storage: GivenDatabase | None,
    space: Did,
    versions: tuple[int, ...],
    survivors: tuple[str, ...],
    blobs: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    principal: Did | None,
) -> dict[str, object]:
    """Destroy what the entity ID held at some versions, with every copy of it. This cannot be undone.

    No process may be using the directory, or with --storage serving the space. The history still verifies, since
    hashes stay.

    Example: stemmadb erase urn:person:7 --version 41 --survivor 'main={"name": null}' --space did:key:z6Mk...
    """
    retained = dict(map(_survivor, survivors))
    removed = [reference.read(text) for text in blobs]
    if not dry_run:
        shell.confirm(ERASE_QUESTION.format(id=id_, versions=", ".join(map(str, versions))), yes=yes)

    async def work(opened: SpaceApi, _: Clock) -> dict[str, object]:
        asked = await _asked(opened, principal, ("erase", id_, versions, retained, removed))
        wanted = {id_: [Version(one) for one in versions]}
        if dry_run:
            count = await erasure.preview(opened, asked, wanted, retained)
            return {"space": space, "id": id_, "dry_run": True, "version": None, "erased": count}
        done = await erasure.erase(opened, asked, wanted, retained, removed)
        return {
            "space": space,
            "id": id_,
            "dry_run": False,
            "version": done.version,
            "hash": shown(done.hash),
            "erased": done.erased,
        }

    answer = _run(shell, data, storage, space, "erasing", work)
    counted = shell.counted(int(str(answer["erased"])), "body", "bodies")
    did = "would be erased" if dry_run else f"erased, version {answer['version']}"
    shell.say(f"{shell.named(space)}: {counted} of {id_} {did}")
    if answer["owes_scrub"]:
        shell.say(OWED)
    return answer


def _older_than(floor: int | None, older_than: str | None) -> int:
    """How many milliseconds ago --older-than means."""
    if (floor is None) == (older_than is None):
        raise click.UsageError("Name the floor with --floor or with --older-than.")
    if older_than is None:
        return 0
    count, unit = older_than[:-1], older_than[-1:]
    if not (count.isascii() and count.isdigit()) or len(count) > 6 or unit not in _SECONDS:
        raise click.UsageError(f"{older_than[:80]!r} is not an age: write 30d, 12h or 2w.")
    return int(count) * _SECONDS[unit] * 1_000


def _asked_floor(floor: int | None, older_than: str | None) -> str:
    return f"version {floor}" if older_than is None else f"what is older than {older_than}"


async def _version_at(space: SpaceApi, time: TimeMs) -> Version:
    return await space.read(lambda reader: moments.resolve(reader, ReadMoment(MAIN, time=time)).version)


def _survivor(text: str) -> tuple[BranchName, bytes]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is not BRANCH=JSON.")
    try:
        return branch_name(name), encode(json_values.check(json.loads(value)))
    except (ValueError, InvalidValue) as wrong:
        raise click.UsageError(f"What survives on {name!r} is not JSON: {wrong}.") from wrong


def _run(
    shell: CommandShell, data: Path, storage: GivenDatabase | None, space: Did, stage: str, work: Work
) -> dict[str, object]:
    """Opens the space, alone, and does the work. The answer says whether files owe a scrub."""
    if storage is not None:
        with showing_progress(shell) as on_progress, writable_database(storage) as opened:
            on_progress(MaintenanceProgress(stage, 0))
            claim(opened, space)
            clock = opened.clock()  # ages are those of the database, whatever time this machine has
            store = partial(store_on, opened, clock, counts=Counts(), settings=SETTINGS, limits=LIMITS)
            answer = _done(store, space, work, clock)
            return answer | {"owes_scrub": not answer["dry_run"] and space in opened.owing_scrub()}
    if not data.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(data))
    with showing_progress(shell, data) as on_progress:
        on_progress(MaintenanceProgress(stage, 0))
        return _done(partial(open_store, data), space, work, now) | {"owes_scrub": False}


def _done(
    opening: Callable[[], AbstractAsyncContextManager[Store]], space: Did, work: Work, clock: Clock
) -> dict[str, object]:
    async def alone() -> dict[str, object]:
        async with opening() as store, store.lease(space) as opened:
            return await work(opened, clock)

    try:
        return asyncio.run(alone())
    except KeyboardInterrupt:
        raise click.Abort(INTERRUPTED) from None


async def _asked(space: SpaceApi, principal: Did | None, content: object) -> Asked:
    """A new operation of an owner: whoever can write the files could do it under any name."""
    owner = await space.read(lambda reader: _first_owner(reader, space.did)) if principal is None else principal
    request: Hash = digest_request(os.urandom(RANDOM_ID_BYTES), encode(content))
    return Asked(OperationIdentity(owner, os.urandom(RANDOM_ID_BYTES)), request)


def _first_owner(reader: LogReader, space: Did) -> Did:
    """The first by name in the access list; before there is one, the space itself (ACL-1)."""
    list_id = EntityId(space)
    found = states.load(reader, moments.resolve(reader, ReadMoment(MAIN)).spans, [list_id]).get(list_id)
    roles = found.value if found is not None else None
    owners = sorted(did for did, role in roles.items() if role == "own") if isinstance(roles, dict) else []
    return Did(owners[0]) if owners else space
