"""How a command reaches a space: its options, and opening what they name without making anything by accident."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from stemmadb.client import Database, Identity, Space, connect
from stemmadb.client.cli.completer import complete_branches, complete_identities, complete_spaces
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.moments import AtHead, AtTag, AtTime, AtVersion, BranchMoment, When, parse
from stemmadb.client.cli.safe_text import Viewer
from stemmadb.client.keys.name_book import NamedSpace
from stemmadb.client.keys.name_notices import known_elsewhere
from stemmadb.client.keys.names import Names
from stemmadb.client.keys.ring import DEFAULT, KeyRing
from stemmadb.client.reading.moment import Moment
from stemmadb.protocol import identity as identities
from stemmadb.protocol.errors import NotFound, UnknownSpace
from stemmadb.protocol.model.values.ids import MAIN, Did

URL: Final = "ws://127.0.0.1:8420"
URL_VARIABLE: Final = "STEMMADB_URL"
SPACE_VARIABLE: Final = "STEMMADB_SPACE"
UNSURE: Final = "It may be written or not. Look with 'stemmadb log' before you do it again."

T = TypeVar("T")


class Target(NamedTuple):
    """What the options of a command name."""

    url: str = URL
    space: str | None = None
    identity: str | None = None
    config: Path | None = None
    branch: str = MAIN


# ---------------------------------------------------------------- options


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--url`, `--identity` and `--config`; the command gets them as `target`."""
    return _gathered(command, _SERVER)


def space_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same and `--space`."""
    return _gathered(command, (_SPACE, *_SERVER))


def branch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same, `--space` and `--branch`."""
    return _gathered(command, (_SPACE, _BRANCH, *_SERVER))


_SPACE: Final = click.option(
    "--space",
    envvar=SPACE_VARIABLE,
    show_envvar=True,
    metavar="NAME|DID",
    shell_complete=complete_spaces,
    help="The space, by its local name or its did:key.",
)
_BRANCH: Final = click.option(
    "--branch", default=MAIN, show_default=True, metavar="NAME", shell_complete=complete_branches, help="The branch."
)
_SERVER: Final = (
    click.option("--url", envvar=URL_VARIABLE, show_envvar=True, default=URL, show_default=True, help="The server."),
    click.option(
        "--identity",
        metavar="NAME",
        shell_complete=complete_identities,
        help="The identity to act as, if not the default one.",
    ),
    click.option(
        "--config",
        type=click.Path(file_okay=False, path_type=Path),
        help="The directory of your keys and names, if not the default one.",
    ),
)


def _gathered(command: Callable[..., Any], options: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(*args: object, **given: Any) -> object:
        named = {name: given.pop(name) for name in Target._fields if name in given}
        return command(*args, target=Target(**named), **given)

    for option in reversed(options):
        run = option(run)
    return run


# ---------------------------------------------------------------- opening


def run(target: Target, work: Callable[[Space], Awaitable[T]], *, writes: bool = False) -> T:
    """Opens the space on its branch and does the work; what it `writes` is unsure if it is interrupted."""

    async def opened() -> T:
        async with database(target) as db:
            return await work(await open_space(db, target))

    return finished(opened, writes=writes)


def finished(work: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
    """Runs it to its end, or until Ctrl-C."""

    async def awaited() -> T:
        return await work()

    try:
        return asyncio.run(awaited())
    except KeyboardInterrupt:
        raise click.Abort(UNSURE if writes else "") from None


@asynccontextmanager
async def database(target: Target) -> AsyncIterator[Database]:
    """The server as an identity sees it. Only the default identity is made if it is not there."""
    async with connect(target.url, identity=identity_of(target), config=target.config, notice=say_notice) as db:
        yield db


def say_notice(text: str) -> None:
    """What the user should know beside the answer, on standard error."""
    click.echo(clean(text), err=True)


async def open_space(db: Database, target: Target) -> Space:
    """The space on its branch; `UnknownSpace` for a name that nothing was made under, `UnknownBranch` likewise.

    A name that the address is not known for may be one of its server's names; a server that cannot be reached is
    `Unreachable`, whatever the name.
    """
    if target.space is None:
        raise click.UsageError(f"Name the space with --space or in {SPACE_VARIABLE}.")
    names = Names(target.config)
    if not target.space.startswith(identities.PREFIX) and names.find(target.url, target.space) is None:
        server = await db.server()
        if names.on(server, target.space) is None:
            raise _unknown(target.space, target.url, names.elsewhere(server, target.space))
    try:
        space = await db.space(target.space)
    except UnknownSpace as unknown:
        raise _closed(unknown, db, target) from None
    return space if target.branch == MAIN else await space.branch(target.branch)


def identity_of(target: Target) -> Identity:
    """Who the command speaks for; `NotFound` for a name that is not in the key ring."""
    ring = KeyRing(target.config)
    if target.identity is None or target.identity == DEFAULT:
        return ring.identity()
    return _known(ring, target.identity)


def person(target: Target, text: str) -> Did:
    """The DID of somebody, who is written as one or is in the key ring by name."""
    if text.startswith(identities.PREFIX):
        identities.public_key(text)
        return Did(text)
    return _known(KeyRing(target.config), text).did


def viewer(target: Target) -> Viewer:
    """Who looks: own identities are shown by name, and so are spaces, whose keys write their first commit."""
    spaces = {str(one.space): one.name for one in Names(target.config).spaces()}
    return Viewer(spaces | {did: name for name, did in KeyRing(target.config).identities().items()})


def _known(ring: KeyRing, name: str) -> Identity:
    found = ring.find(name)
    if found is None:
        hint = f"List them with 'stemmadb keys list', or make it with 'stemmadb keys new {name}'"
        raise NotFound(f"There is no identity {name!r}. {hint}.", name=name)
    return found


def _unknown(name: str, url: str, other: NamedSpace | None) -> UnknownSpace:
    if other is not None:
        hint = f"Name its address with --url, or make one here with 'stemmadb space create {name} --new'"
        message = f"There is no space {name!r} at {url}. {known_elsewhere(name, other)} {hint}."
        return UnknownSpace(message, space=name)
    hint = f"List those you know with 'stemmadb space list', or make it with 'stemmadb space create {name}'"
    return UnknownSpace(f"There is no space {name!r} at {url}. {hint}.", space=name)


def _closed(unknown: UnknownSpace, db: Database, target: Target) -> UnknownSpace:
    """A server tells strangers of a space nothing, not even that it is there (ACL-2)."""
    hint = f"Check the address, or ask an owner to run 'stemmadb acl set {db.identity.did} read'"
    return UnknownSpace(
        f"There is no space {target.space!r} at {target.url} that you may see. {hint}.", **unknown.facts
    )


# ---------------------------------------------------------------- moments


def now() -> datetime:
    return datetime.now().astimezone()


def read_moment(ctx: click.Context, option: click.Parameter, text: str | None) -> When | None:  # noqa: ARG001
    """The callback of options that take a moment."""
    return None if text is None else parse(text, now=now())


at_option: Final = click.option(
    "--at",
    "when",
    callback=read_moment,
    default="head",
    metavar="MOMENT",
    help="Read the state at a version (42), a tag (tag:v1) or a time ('10 minutes ago').",
)


def at(space: Space, when: When) -> Moment:
    """The space as it was then; nothing is asked before something is read."""
    match when:
        case AtVersion(version):
            return space.at(version=version)
        case AtTag(name):
            return space.at(tag=name)
        case AtTime(time):
            return space.at(time=time)
        case AtHead():
            return space.at()


async def at_place(space: Space, place: BranchMoment) -> Moment:
    """The same on another branch, if it names one."""
    return at(space if place.branch is None else await space.branch(place.branch), place.when)
