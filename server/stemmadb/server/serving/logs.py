"""Logs: one line for each event, for people or as JSON; never a value, a note, a token or a signature.

An event has a name that does not change and fields that are numbers or short texts. What libraries log is shown
without its arguments, and an exception without its words, since either may hold what a client has sent.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Literal, TextIO, TypeAlias

from stemmadb.server.log_events import ROOT, Field, kind_of

Format: TypeAlias = Literal["human", "json"]

HIDDEN: Final = "(hidden)"
HIDDEN_FIELDS: Final = frozenset(
    {"body", "challenge", "delegation", "key", "message", "note", "patch", "proof", "secret", "signature", "token"}
    | {"content", "data", "metadata", "value", "values"}
)
"""Names whose fields are never shown, should one be given by mistake."""
TEXT_MAX: Final = 300
QUIET: Final = ("asyncio", "picows", "websockets", f"{ROOT}.websockets")
"""Libraries that would log every message at a lower level than warnings."""

_DID: Final = re.compile(r"did:key:z[1-9A-HJ-NP-Za-km-z]{47}")
_PLAIN: Final = re.compile(r"[\w.:/@+\-\[\]…]+")


@contextmanager
def logging_to(stream: TextIO, *, form: Format, level: str, worker: int | None = None) -> Iterator[None]:
    """Everything that is logged while the block runs goes here, whoever logs it; each line names the worker."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(worker) if form == "json" else HumanLines(worker))
    root = logging.getLogger()
    before = root.level
    loud = {name: logging.getLogger(name).level for name in QUIET}
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        for name, was in loud.items():
            logging.getLogger(name).setLevel(was)


class EventLines(logging.Formatter):
    """Lines of events; each has the number of the worker, where there are several."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker: dict[str, Field] = {} if worker is None else {"worker": worker}


class JsonLines(EventLines):
    """One JSON object a line: time, level, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event_of(record)
        fields = self._worker | fields
        line: dict[str, Field] = {"time": _time(record), "level": record.levelname.lower(), "event": event}
        return json.dumps(line | fields | line)


class HumanLines(EventLines):
    """`2026-01-31T12:00:00.000Z INFO  listening host=127.0.0.1 port=8420`; DIDs are shortened."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event_of(record)
        fields = self._worker | fields
        shown = "".join(f" {name}={_word(value)}" for name, value in fields.items())
        return f"{_time(record)} {record.levelname:<7} {event}{shown}"


def short_did(did: str) -> str:
    """Enough of a DID for a person to tell it from others."""
    return f"{did[:14]}…{did[-4:]}"


def _event_of(record: logging.LogRecord) -> tuple[str, dict[str, Field]]:
    """The event and its fields; a sentence is an event of its own."""
    fields = getattr(record, "fields", None)
    if fields is not None:
        return str(record.msg), {name: _shown(name, value) for name, value in fields.items()}
    is_ours = record.name.startswith(f"{ROOT}.") and record.name not in QUIET
    found: dict[str, Field] = {
        "logger": record.name,
        "says": _shown("says", record.getMessage() if is_ours else str(record.msg)),
    }
    if record.exc_info and record.exc_info[1] is not None:
        found |= kind_of(record.exc_info[1])
    return "said" if is_ours else "library", found


def _shown(name: str, value: object) -> Field:
    if name in HIDDEN_FIELDS:
        return HIDDEN
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        return HIDDEN
    return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}…"


def _word(value: Field) -> str:
    """A field in a line for people: quoted where it could be taken for something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    text = _DID.sub(lambda found: short_did(found[0]), value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"
