"""Reads files of a directory that somebody else may have prepared: regular files only, and no more than expected.

A symbolic link could lead to any file of this machine, a FIFO would block for ever, and a device never ends.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from stemmadb.protocol.errors import BrokenChain

BLOCK_BYTES: Final = 1 << 20
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(root: Path, path: Path) -> BinaryIO:
    """The file at `path` below `root`, with no link on the way; `root` is the operator's own choice and may be one.

    `BrokenChain` if it is anything but a regular file, `FileNotFoundError` if it is not there.
    """
    *folders, name = path.parts
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = _open(folder, os.O_DIRECTORY, at, path)
            os.close(at)
            at = below
        opened = _open(name, 0, at, path)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise _refused(path)
    return os.fdopen(opened, "rb")


def copy_regular(root: Path, path: Path, target: Path, *, bytes_max: int) -> None:
    """Copies the file to a new private file, durably; `BrokenChain` as soon as it proves longer than `bytes_max`."""
    with (
        open_regular(root, path) as source,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy,
    ):
        left = bytes_max
        while block := source.read(min(BLOCK_BYTES, left + 1)):
            left -= len(block)
            if left < 0:
                raise BrokenChain(
                    version=0, place=f"file {path}", why=f"it has more than the {bytes_max} bytes expected"
                )
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())


def _open(name: str, flags: int, folder: int, path: Path) -> int:
    try:
        return os.open(name, _FLAGS | flags, dir_fd=folder)
    except OSError as failed:
        if failed.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):  # a link, a link for a folder, a socket
            raise _refused(path) from None
        failed.filename = str(path)
        raise


def _refused(path: Path) -> BrokenChain:
    return BrokenChain(version=0, place=f"file {path}", why="it, or a folder on the way to it, is not a regular one")
