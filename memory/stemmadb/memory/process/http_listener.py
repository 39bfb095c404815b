"""Listeners for HTTP: an address is `127.0.0.1:9100`, `[::1]:9100` or `unix:/path/of.sock`."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

from stemmadb.memory.interfaces.http.guards import HostGuard
from stemmadb.memory.process.places import checked_socket, make_private
from stemmadb.protocol.errors import Malformed, Unavailable

UNIX: Final = "unix:"
LOCALHOST: Final = "localhost"
BACKLOG: Final = 128


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
    address: ListenAddress, make_app: Callable[[HostGuard], web.Application], allowed_hosts: tuple[str, ...] = ()
) -> AsyncIterator[str]:
    """Serves while the block runs; gives the URL. `Unavailable` if the address cannot be used."""
    listener = opened_socket(address)
    port = None if address.path is not None else int(listener.getsockname()[1])
    runner = web.AppRunner(make_app(HostGuard.of_listener(port, allowed_hosts)), access_log=None)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        shown = f"[{address.host}]" if ":" in address.host else address.host
        yield f"{UNIX}{address.path}" if address.path is not None else f"http://{shown}:{port}"
    finally:
        await runner.cleanup()
        listener.close()
        if address.path is not None:
            address.path.unlink(missing_ok=True)


def opened_socket(address: ListenAddress) -> socket.socket:
    """A socket that listens on the address; `Unavailable` if it cannot."""
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
    made, before = socket.socket(socket.AF_UNIX), os.umask(0o177)
    try:
        made.bind(str(path))
        made.listen(BACKLOG)
    except OSError as failed:
        made.close()
        raise Unavailable(f"Cannot listen on {path}: {failed.strerror or failed}. Check the directory.") from None
    finally:
        os.umask(before)
    return made


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
