"""Where a memory server keeps its data and where its socket is."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from blake3 import blake3

from stemmadb.protocol.errors import Unavailable

DATA_VARIABLE: Final = "STEMMADB_MEMORY"
SPACE: Final = "memory"
"""The name of the space that memories are kept in."""
BACKLOG: Final = 128
SOCKET_BYTES_MAX: Final = 107
"""A longer path does not fit into a socket address."""


def data_directory(environment: Mapping[str, str] | None = None, home: Path | None = None) -> Path:
    """`$STEMMADB_MEMORY`, else the user's data directory.

    >>> data_directory({"XDG_DATA_HOME": "/data"})
    PosixPath('/data/stemmadb/memory')
    """
    found = os.environ if environment is None else environment
    if chosen := found.get(DATA_VARIABLE):
        return Path(chosen).expanduser().absolute()
    shared = Path(found.get("XDG_DATA_HOME", ""))
    base = shared if shared.is_absolute() else (home or Path.home()) / ".local" / "share"
    return base / "stemmadb" / "memory"


def control_socket(data: Path, environment: Mapping[str, str] | None = None, *, worker: int | None = None) -> Path:
    """The memory server's socket, or that of its share in a worker.

    It is not beside the data, whose path may be too long for a socket.
    """
    found = os.environ if environment is None else environment
    share = "" if worker is None else f"-{worker}"
    name = f"{blake3(str(data.resolve()).encode()).hexdigest()[:16]}{share}.sock"
    runtime = Path(found.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and runtime.is_dir():
        return checked_socket(runtime / "stemmadb" / name)
    return checked_socket(Path(tempfile.gettempdir()) / f"stemmadb-{os.getuid()}" / name)


def checked_socket(path: Path) -> Path:
    """`Unavailable` if the path is too long for a socket."""
    size = len(os.fsencode(path))
    if size > SOCKET_BYTES_MAX:
        most = f"at most {SOCKET_BYTES_MAX} are possible. Choose a shorter one"
        raise Unavailable(f"The path of the socket {path} has {size} bytes; {most}.")
    return path


def make_private(directory: Path) -> None:
    """Makes a directory that only the user may enter; `Unavailable` if it is somebody else's or open to others."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Unavailable(f"{directory} must be a directory of yours that nobody else may enter. Run: chmod 700 it.")


def listening_privately(path: Path) -> socket.socket:
    """A unix socket that only the user can open, from its first moment on: no chmod follows."""
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
