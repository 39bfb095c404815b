"""The database: one server, one identity, and the spaces opened there."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, TypeAlias

from stemmadb.client.core import SpaceCore
from stemmadb.client.dialing.greeting import greet
from stemmadb.client.dialing.urls import server_url
from stemmadb.client.dialing.websocket import WebSocketDial
from stemmadb.client.journal.disk import DiskJournal
from stemmadb.client.journal.memory import MemoryJournal
from stemmadb.client.journal.port import Journal
from stemmadb.client.keys import name_notices
from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.key_files import read_identity
from stemmadb.client.keys.name_book import NamedSpace
from stemmadb.client.keys.names import Names
from stemmadb.client.keys.ring import DEFAULT, SEED_BYTES, KeyRing
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite, PlannedRead
from stemmadb.client.reading.delegation import read_tokens
from stemmadb.client.session.session import ClientSession
from stemmadb.client.session.settings import DEFAULT_SETTINGS, ClientSettings
from stemmadb.client.space import Space
from stemmadb.protocol import identity as identities
from stemmadb.protocol.errors import (
    Forbidden,
    GoingAway,
    Malformed,
    NotFound,
    Rejected,
    StemmaError,
    UnknownSpace,
)
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, MAIN, Did, EntityId, TimeMs
from stemmadb.protocol.wire.channel import Dial

MakeJournal: TypeAlias = Callable[[Did, Did], Journal]
"""Makes the journal of a space for a principal."""


class SpaceNames(Protocol):
    """Which space a name means on a server, and which server an address led to last (NAME-1)."""

    def find(self, url: str, name: str) -> Did | None: ...

    def server(self, url: str) -> Did | None: ...

    def on(self, server: Did, name: str) -> Did | None: ...

    def elsewhere(self, server: Did, name: str) -> NamedSpace | None: ...

    def meet(self, url: str, server: Did) -> None: ...

    def remember(self, url: str, server: Did, name: str, space: Did) -> Did:
        """The space that the name means from now on: the first one that was given wins."""
        ...


class SpaceKeys(Protocol):
    """The keys of spaces that were made here."""

    def space_key(self, space: Did) -> Identity | None: ...

    def keep_space_key(self, key: Identity) -> None: ...


class Means(NamedTuple):
    """How a client reaches, keeps, chooses and tells the time; a simulation has its own."""

    dial: Dial
    make_journal: MakeJournal
    random: Callable[[int], bytes]
    now: Callable[[], TimeMs]
    settings: ClientSettings
    cache: bool = False

    def chance(self) -> float:
        """A number from 0 to 1."""
        return int.from_bytes(self.random(8)) / 2**64


class Database:
    """A server, as one identity sees it. Made by `connect`."""

    def __init__(
        self,
        url: str,
        identity: Identity,
        means: Means,
        *,
        names: SpaceNames,
        keys: SpaceKeys,
        delegations: tuple[bytes, ...] = (),
        notice: Callable[[str], None],
    ) -> None:
        self.url = url
        self.identity = identity
        self._means = means
        self._names = names
        self._keys = keys
        self._delegations = delegations
        self._notice = notice
        """Tells the user that a name leads to another space than before."""
        self._server: Did | None = None
        """The server that the last connection led to."""
        self._cores: dict[Did, SpaceCore] = {}
        self._one_at_a_time = asyncio.Lock()
        self._opening: SpaceCore | None = None
        """The space that is being made or opened: not for the app yet, and closed with the others."""
        self._is_closed = False

    # ------------------------------------------------------------ spaces

    async def space(self, name: str) -> Space:
        """The space of this local name, made on first use; or the one with this did:key.

        Without a server this works for a space whose journal is here; else it raises `Unreachable`.
        """
        if self._is_closed:
            raise GoingAway("The database was closed. Connect again to go on.")
        async with self._one_at_a_time:  # concurrent callers of the same space get the same object
            if str(name).startswith(identities.PREFIX):  # what is no text is refused as a name
                identities.public_key(name)
                return Space(await self._open(Did(name)))
            return Space(await self._named(name))

    async def server(self) -> Did:
        """The DID of the server at this address, which is asked for it; `Unreachable` if nobody answers."""
        seconds = self._means.settings.open_seconds
        self._server = await greet(self._means.dial, self.identity.did, url=self.url, timeout=seconds)
        self._names.meet(self.url, self._server)
        return self._server

    async def _named(self, name: str) -> SpaceCore:
        """The space that the name means on the server at this address (NAME-1)."""
        known = self._names.find(self.url, name)
        if known is None:
            return await self._named_on(await self.server(), name)
        old = self._names.server(self.url)
        core = await self._open_if_there(known)
        if (server := self._server) is None:
            assert core is not None, "without a server there is a journal, or an error"
            return core
        self._names.meet(self.url, server)
        meant = self._names.on(server, name)
        if meant is None:
            return await self._changed_server(name, known, core, old=old, new=server)
        if meant != known:
            await self._let_go(known)
            return await self._named_on(server, name)
        return core if core is not None else await self._make_again(name, known)

    async def _named_on(self, server: Did, name: str) -> SpaceCore:
        """The same on a server that was met."""
        known = self._names.on(server, name)
        if known is not None:
            core = await self._open_if_there(known)
            return core if core is not None else await self._make_again(name, known)
        other = self._names.elsewhere(server, name)
        made = await self._make(server, name)
        if other is not None:
            self._notice(name_notices.new_here(name, self.url, server=server, other=other))
        return made

    async def _changed_server(
        self, name: str, known: Did, core: SpaceCore | None, *, old: Did | None, new: Did
    ) -> SpaceCore:
        """Another server answers at the address, which has the space, or does not."""
        if core is not None:
            self._names.remember(self.url, new, name, known)
            self._notice(name_notices.moved(name, known, self.url, old=old, new=new))
            return core
        made = await self._make(new, name)
        self._notice(name_notices.replaced(name, known, self.url, old=old, new=new))
        return made

    async def _open_if_there(self, space: Did) -> SpaceCore | None:
        try:
            return await self._open(space)
        except UnknownSpace:
            return None

    async def _make_again(self, name: str, space: Did) -> SpaceCore:
        """The server lost it, and its key is here; `UnknownSpace` if the key is not, or others own the space."""
        if self._keys.space_key(space) is None:
            raise UnknownSpace(space=space)
        try:
            await self._found(space)
        except (Forbidden, Rejected):  # it has an access list, in which this identity is not (ACL-2)
            raise UnknownSpace(space=space) from None
        core = await self._open(space)
        self._notice(name_notices.made_again(name, space, self.url))
        return core

    async def _let_go(self, space: Did) -> None:
        core = self._cores.pop(space, None)
        if core is not None:
            await core.close(wait_seconds=0)

    async def _open(self, space: Did) -> SpaceCore:
        core = self._cores.get(space)
        if core is not None:
            return core
        journal = self._means.make_journal(space, self.identity.did)
        try:
            core = self._start(space, self.identity, journal)
        except BaseException:
            await journal.close()
            raise
        async with self._beginning(core):
            if not core.session.is_cached:  # what is cached is shown before there is a connection (CACHE-3)
                await core.link.settled()
                self._server = core.session.server or self._server  # a server that refuses is known too
                if core.link.state != "open" and not (core.link.state == "offline" and core.session.is_known):
                    raise core.link.why_not_open()
            self._server = core.session.server or self._server
            self._cores[space] = core
            return core

    @asynccontextmanager
    async def _beginning(self, core: SpaceCore) -> AsyncIterator[None]:
        """If the block fails, or is cancelled, nothing of the space is left; closing the client ends it as well."""
        self._opening = core
        try:
            yield
        except BaseException:
            await core.close(wait_seconds=0)
            raise
        finally:
            self._opening = None

    def _start(self, space: Did, identity: Identity, journal: Journal) -> SpaceCore:
        if self._is_closed:
            raise GoingAway("The client is being closed.")
        means = self._means
        session = ClientSession(
            space,
            identity,
            journal=journal,
            random=means.random,
            now=means.now,
            settings=means.settings,
            delegations=self._delegations,
            cache=means.cache and journal.keeps,
        )
        return SpaceCore(session, means.dial, url=self.url, random=means.chance)

    async def _make(self, server: Did, name: str) -> SpaceCore:
        """A new space: stores its key, then its name (the first taker wins), and has the server create it."""
        key = Identity.from_seed(self._means.random(SEED_BYTES))
        self._keys.keep_space_key(key)
        space = self._names.remember(self.url, server, name, key.did)
        if space == key.did:
            await self._found(space)
        return await self._open(space)

    async def _found(self, space: Did) -> None:
        """The first commit of a space is its access list, made by the space's own key."""
        key = self._keys.space_key(space)
        assert key is not None, "whoever makes a space has its key"
        core = self._start(space, key, MemoryJournal())
        async with self._beginning(core):
            await core.link.settled()
            if core.link.state != "open":
                raise core.link.why_not_open()
            founding = core.submit(_founding(space, self.identity.did))
            await core.settled()
            await founding.confirmed()
        await core.close(wait_seconds=0)

    # ------------------------------------------------------------ the end

    async def close(self, *, wait_seconds: float | None = None) -> None:
        """Waits for undecided commits, at most `wait_seconds`, and lets everything go.

        `Unconfirmed` if some are undecided and no journal keeps them.
        """
        wait = self._means.settings.close_seconds if wait_seconds is None else wait_seconds
        self._is_closed = True
        if self._opening is not None:
            await self._opening.close(wait_seconds=0)
        async with self._one_at_a_time:
            cores, self._cores = self._cores, {}
            closing = [core.close(wait_seconds=wait) for core in cores.values()]
            errors = await asyncio.gather(*closing, return_exceptions=True)
        for error in errors:
            if error is not None:
                raise error

    def __await__(self) -> Generator[None, None, Database]:
        """Lets an app write `db = await connect(...)`, as with other clients. Opening a space connects."""
        yield from ()
        return self

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close(wait_seconds=None if error is None else 0)
        except StemmaError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"Database({self.url}, {self.identity.did})"


def _founding(space: Did, owner: Did) -> CommitPlan:
    roles = body.encode({owner: "own"})
    write = CommitWrite("set", EntityId(space), roles, body.read_stored(roles), None)
    return CommitPlan(MAIN, (write,), (PlannedRead(EMPTY_SPACE, EntityId(space)),))


def _log_notice(text: str) -> None:
    """On standard error, unless the app has set up logging."""
    logging.getLogger("stemmadb.client").warning("%s", text)


def _now() -> TimeMs:
    return TimeMs(time.time_ns() // 1_000_000)


def connect(  # noqa: PLR0913  # each has a default, and most apps give none
    url: str = "ws://127.0.0.1:8420",
    *,
    journal: str | os.PathLike[str] | MakeJournal | None = None,
    cache: bool = False,
    identity: Identity | str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    delegations: Iterable[str | bytes] = (),
    settings: ClientSettings = DEFAULT_SETTINGS,
    dial: Dial | None = None,
    names: SpaceNames | None = None,
    keys: SpaceKeys | None = None,
    random: Callable[[int], bytes] = os.urandom,
    now: Callable[[], TimeMs] = _now,
    notice: Callable[[str], None] = _log_notice,
) -> Database:
    """A client of the server at `url`. Nothing is connected before a space is opened.

        async with connect("ws://127.0.0.1:8420", journal="~/.my-app") as db:
            space = await db.space("todo")

    At a prompt or in a notebook, where a block ends too early, write `db = await connect(...)` and later
    `await db.close()`.

    `journal` is a directory that keeps undecided and refused commits over restarts of the app. With `cache` it also
    keeps what the app watches, so that an app that starts without a server shows what it saw last. `identity` is who
    you are: one of the key ring by its name, the path of a key file, or an `Identity`; the default one is made on
    first use in the config directory `config`. `delegations` are tokens that delegate rights to you. `notice` gets a
    sentence when a name leads to another space than before; by default it is logged as a warning. The rest is for
    tests: how connections, names, chance and time are made.
    """
    if cache and journal is None:
        why = "the cache is a part of the journal, and there is none"
        raise Malformed(
            "`cache` needs a journal: give `connect` a directory as `journal`, too.", path="cache", why=why
        )
    directory = None if config is None else Path(config)
    ring = KeyRing(directory)
    identity = _identity(identity, ring)
    dial = dial or WebSocketDial(url, open_timeout=settings.open_seconds)
    url = server_url(url)
    means = Means(dial, _journals(journal, cache=cache), random, now, settings, cache)
    return Database(
        url,
        identity,
        means,
        names=names or Names(directory),
        keys=keys or ring,
        delegations=read_tokens(delegations),
        notice=notice,
    )


def _identity(given: Identity | str | os.PathLike[str] | None, ring: KeyRing) -> Identity:
    if isinstance(given, Identity):
        return given
    if given is None or given == DEFAULT:
        return ring.identity()
    if isinstance(given, str) and not {"/", os.sep} & set(given):
        return _known(given, ring)
    try:
        return read_identity(Path(given))
    except FileNotFoundError:
        raise NotFound(f"There is no key file {str(given)!r}. Check the path.", path=str(given)) from None


def _known(name: str, ring: KeyRing) -> Identity:
    """One of the key ring: a name that was mistyped must not become somebody new."""
    found = ring.find(name)
    if found is None:
        hint = f"List them with 'stemmadb keys list', or make it with 'stemmadb keys new {name}'; a file is a Path"
        raise NotFound(f"There is no identity {name!r}. {hint}.", name=name)
    return found


def _journals(journal: str | os.PathLike[str] | MakeJournal | None, *, cache: bool) -> MakeJournal:
    if journal is None:
        return lambda _space, _principal: MemoryJournal()
    if callable(journal):
        return journal
    directory = Path(journal)
    return lambda space, principal: DiskJournal(directory, space=space, principal=principal, cache=cache)
