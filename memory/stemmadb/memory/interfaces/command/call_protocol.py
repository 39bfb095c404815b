"""Requests and answers of the command line, line by line.

{"id": 1, "operation": "search", "arguments": {"query": "zebra"}}
{"id": 1, "result": {...}}          or          {"id": 1, "error": {"code": "not_found", "message": "..."}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stemmadb.memory.interfaces.command.command_context import CommandContext
from stemmadb.memory.interfaces.command.operations_table import OPERATIONS
from stemmadb.memory.rules.refusals import (
    Busy,
    InvalidRequest,
    NoSuchMemory,
    NoSuchNamespace,
    NotAllowed,
    PermissionDenied,
    Refusal,
    UnknownMoment,
)
from stemmadb.protocol.errors import StemmaError

_log: Final = logging.getLogger("stemmadb.memory.command")
CODES: Final[Mapping[type[Refusal], str]] = {
    InvalidRequest: "bad_request",
    NoSuchNamespace: "not_found",
    NoSuchMemory: "not_found",
    UnknownMoment: "not_found",
    PermissionDenied: "forbidden",
    NotAllowed: "forbidden",
    Busy: "unavailable",
}


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    id: int
    operation: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


async def answer_line(context: CommandContext, line: bytes) -> dict[str, object]:
    """The answer to one line; whatever goes wrong is an answer too."""
    try:
        request = msgspec.json.decode(line, type=CommandRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as broken:
        return _failed(None, "bad_request", f"This is no request: {broken}.")
    operation = OPERATIONS.get(request.operation)
    if operation is None:
        return _failed(request.id, "bad_request", f"Operations are {', '.join(sorted(OPERATIONS))}.")
    try:
        return {"id": request.id, "result": await operation(context, request.arguments)}
    except Refusal as refused:
        code = next((code for kind, code in CODES.items() if isinstance(refused, kind)), "bad_request")
        return _failed(request.id, code, str(refused))
    except StemmaError as failed:
        return _failed(request.id, failed.code, failed.message)
    except Exception:
        _log.exception("the operation %s failed", request.operation)
        return _failed(request.id, "internal", "An internal error. The memory server has logged it.")


def _failed(number: int | None, code: str, message: str) -> dict[str, object]:
    return {"id": number, "error": {"code": code, "message": message}}
