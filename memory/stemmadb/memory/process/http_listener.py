"""Listeners for HTTP: an address is `127.0.0.1:9100`, `[::1]:9100` or `unix:/path/of.sock`."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

from stemmadb.memory.interfaces.http.guards import HostGuard
from stemmadb.memory.process.places import BACKLOG, checked_socket, listening_privately, make_private
from stemmadb.protocol.errors import Malformed, Unavailable

UNIX: Final = "unix:"
LOCALHOST: Final = "localhost"


class ListenAddress(NamedTuple):
    """Where to listen: a path, or a host and a port."""

    path: Path | None = None
    host: str = ""
    port: int = 0


def read_address(text: str, *, unsafe: bool = False) -> ListenAddress:
    """`Malformed` if it is no address; other than loopback only with `unsafe`: there is no authentication."""
    if text.startswith(UNIX):
        path = Path(text.removeprefix(UNIX))
        if not path.is_absolute():
            raise _wrong(text, "the path of a socket begins with /")
        return ListenAddress(path=checked_socket(path))
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise _wrong(text, "write it as 127.0.0.1:9100 or unix:/path/of.sock")
    if not _is_loopback(host) and not unsafe:
        raise _wrong(text, "it is not a loopback address, and there is no authentication. --unsafe-bind allows it")
    return ListenAddress(host=host, port=int(port))


def _is_loopback(host: str) -> bool:
    try:
        return host == LOCALHOST or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(text: str, why: str) -> Malformed:
    return Malformed(f"{text!r} is no address to listen on: {why}.", path="address", why=why)


@asynccontextmanager
async def listening(
    address: ListenAddress,
    make_app: Callable[[HostGuard], web.Application],
    allowed_hosts: tuple[str, ...] = (),
    given: socket.socket | None = None,
) -> AsyncIterator[str]:
    """Serves while the block runs; gives the URL. `Unavailable` if the address cannot be used.

    `given` is the socket, where another process has opened it.
    """
    with listener_on(address, given) as listener:
        guard = HostGuard.of_listener(port_of(address, listener), allowed_hosts)
        runner = web.AppRunner(make_app(guard), access_log=None)
        try:
            await runner.setup()
            await web.SockSite(runner, listener).start()
            yield url_of(address, listener)
        finally:
            await runner.cleanup()


def port_of(address: ListenAddress, listener: socket.socket) -> int | None:
    """None for a path."""
    return None if address.path is not None else int(listener.getsockname()[1])


def url_of(address: ListenAddress, listener: socket.socket) -> str:
    if address.path is not None:
        return f"{UNIX}{address.path}"
    shown = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{shown}:{port_of(address, listener)}"


@contextmanager
def listener_on(address: ListenAddress, given: socket.socket | None = None) -> Iterator[socket.socket]:
    """A socket that listens on the address; `Unavailable` if it cannot.

    One that is given was opened by another process, which accepts no connections and removes its path at the end.
    """
    with given or _opened_socket(address) as listener:
        try:
            yield listener
        finally:
            if given is None and address.path is not None:
                address.path.unlink(missing_ok=True)


def _opened_socket(address: ListenAddress) -> socket.socket:
    return _unix_socket(address.path) if address.path is not None else _tcp_socket(address)


def _tcp_socket(address: ListenAddress) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as failed:
        raise Unavailable(
            f"Cannot listen on {address.host}, port {address.port}: {failed.strerror or failed}. Choose another port."
        ) from None


def _unix_socket(path: Path) -> socket.socket:
    """Made under a umask, in a directory that only the user may enter; a dead socket of that name is replaced."""
    make_private(path.parent)
    _remove_dead(path)
    return listening_privately(path)


def _remove_dead(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise Unavailable(f"Another program listens on {path}. Stop it, or choose another path.")
