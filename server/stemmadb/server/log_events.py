"""What any part of the server logs with: events that have names, and fields that are numbers or short texts.

How they look, and what is hidden in them, is decided where logs are written (`serving.logs`).
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

Field: TypeAlias = str | int | float | bool | None

ROOT: Final = "stemmadb"
FRAMES_MAX: Final = 6
"""How many of the innermost calls an internal error is logged with."""


class Log:
    """`LOG = Log("listener")`, then `LOG.info("listening", port=8420)`. Never give it a value, a note or a token."""

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"{ROOT}.{part}")

    def debug(self, event: str, **fields: Field) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Field) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Field) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Field) -> None:
        self._write(logging.ERROR, event, fields)

    def internal_error(self, event: str, error: BaseException, **fields: Field) -> None:
        """An internal error: its class and where it happened, without the message of the exception."""
        self._write(logging.ERROR, event, fields | kind_of(error))

    def _write(self, level: int, event: str, fields: Mapping[str, Field]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


def kind_of(error: BaseException) -> dict[str, Field]:
    """Its class and the calls that led to it; its message could contain what a client has sent."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_MAX:]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    return {"error": type(error).__name__, "where": where}
