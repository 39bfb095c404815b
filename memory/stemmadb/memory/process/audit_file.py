"""The audit: `audit.jsonl` of a data directory, one line before and one after each call of a tool."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

FILE: Final = "audit.jsonl"
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
FILES_KEPT: Final = 10


class AuditFile:
    """Written, not synced. A full file becomes `audit.jsonl.1`, and so on; the oldest goes.

    Several workers may write it: one of them moves a full file away, and each other adds one line to it at most.
    """

    def __init__(self, data: Path, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        self._file = data / FILE
        self._bytes_max = bytes_max
        self._descriptor: int | None = None

    def write(self, entry: Mapping[str, object]) -> None:
        if self._descriptor is None:
            self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(self._descriptor, msgspec.json.encode(entry) + b"\n")
        if os.fstat(self._descriptor).st_size >= self._bytes_max:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            if self._is_newest(self._descriptor):
                self._shift()
            self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_newest(self, descriptor: int) -> bool:
        """Whether no other process has moved the file away."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._file.stat())
        except FileNotFoundError:
            return False

    def _shift(self) -> None:
        for number in range(FILES_KEPT - 1, 0, -1):
            older = self._at(number)
            if older.exists():
                older.replace(self._at(number + 1))
        self._file.replace(self._at(1))
        self._at(FILES_KEPT).unlink(missing_ok=True)

    def _at(self, number: int) -> Path:
        return self._file.with_name(f"{FILE}.{number}")


def read_audit(data: Path) -> Iterator[dict[str, Any]]:
    """Every line of the newest file; one that a crash cut short is left out."""
    try:
        content = (data / FILE).read_bytes()
    except FileNotFoundError:
        return
    for line in content.splitlines():
        try:
            yield msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            continue
