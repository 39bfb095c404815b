"""Internal errors of the server: a run with one has failed, whatever the clients saw."""

from __future__ import annotations

import logging
from typing import Final

LOGGER: Final = "stemmadb"
"""The root of all that the server logs."""


class InternalErrors(logging.Handler):
    """Collects what the server logs as an error; nothing else does it on purpose."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        self.found.append(f"{record.getMessage()} {fields}")

    def attach(self) -> None:
        logging.getLogger(LOGGER).addHandler(self)

    def detach(self) -> None:
        logging.getLogger(LOGGER).removeHandler(self)

    def check(self) -> None:
        """Raises if there was one."""
        assert not self.found, "the server had an internal error:\n" + "\n".join(self.found)
