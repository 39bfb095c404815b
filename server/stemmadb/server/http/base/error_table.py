"""The status of every error code, and errors as `application/problem+json` (HTTP-12). One table; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from stemmadb.protocol.errors import LimitExceeded, StemmaError, Unauthenticated, UnknownSpace
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.connection import problems
from stemmadb.server.http.base.replies import PROBLEM, HttpReply

PAGE: Final = "docs/reference/errors.md"
RETRY_AFTER_SECONDS: Final = 1
MALFORMED: Final = "malformed"
NO_SUCH_SPACE: Final = "There is no such space here. Check the server's address and the space's DID."
"""Names no space, so that all answers to strangers have the same bytes (HTTP-13)."""

STATUSES: Final[Mapping[str, int]] = {
    "malformed": 400,
    "invalid_value": 400,
    "invalid_id": 400,
    "invalid_name": 400,
    "invalid_did": 400,
    "invalid_reference": 400,
    "invalid_pointer": 400,
    "invalid_schema": 400,
    "invalid_query": 400,
    "invalid_merge": 400,
    "unauthenticated": 401,
    "invalid_delegation": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown_space": 404,
    "unknown_branch": 404,
    "unknown_tag": 404,
    "unknown_blob": 404,
    "future_version": 404,
    "conflict": 409,
    "dependency": 409,
    "merge_conflict": 409,
    "identity_clash": 409,
    "branch_exists": 409,
    "tag_exists": 409,
    "branch_protected": 409,
    "erased": 410,
    "compacted": 410,
    "branch_deleted": 410,
    "already_exists": 412,
    "limit_exceeded": 422,
    "patch_failed": 422,
    "undeclared": 422,
    "blob_mismatch": 422,
    "rate_limited": 429,
    "internal": 500,
    "unavailable": 503,
    "going_away": 503,
    "merge_busy": 503,
    "timed_out": 504,
    "storage_full": 507,
}
NEVER: Final = frozenset(
    {
        "overtaken", "out_of_order", "unknown_message", "unsupported_protocol", "taken_over",
        "broken_chain", "directory_held", "newer_storage", "not_empty", "bad_stream", "invalid_config",
        "unusable_key", "not_in_view", "unreachable", "unconfirmed", "journal_failed",
    }
)  # fmt: skip
"""Codes that no HTTP request gets: of sessions, of the data directory, and of clients."""
LIMIT_STATUSES: Final = {
    "value_bytes_max": 413,
    "note_bytes_max": 413,
    "blob_bytes_max": 413,
    "connections_per_principal_max": 429,
    "http_streams_max": 503,
}
"""`limit_exceeded` by the bytes of the request, and by numbers of connections; any other is 422."""


class HttpProblem(Exception):
    """An error of HTTP itself, which has no code of its own: it is answered with `code: malformed`."""

    def __init__(self, status: int, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


def status_of(error: StemmaError, *, is_precondition: bool = False) -> int:
    """The status of an error; a conflict with what `If-Match` or `If-None-Match` said is 412."""
    if is_precondition and error.code == "conflict":
        return HTTPStatus.PRECONDITION_FAILED
    if isinstance(error, LimitExceeded):
        return LIMIT_STATUSES.get(error.facts.get("bound", ""), HTTPStatus.UNPROCESSABLE_ENTITY)
    return STATUSES.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)


def reply_to(
    error: StemmaError, limits: Limits, *, is_precondition: bool = False, extra: Mapping[str, Any] | None = None
) -> HttpReply:
    """The answer that an error gets; `extra` are members beside those that every problem has."""
    message = problems.error_message(error, limits=limits)
    status = status_of(error, is_precondition=is_precondition)
    detail, details = message.message, message.details
    if isinstance(error, UnknownSpace):
        detail, details = NO_SUCH_SPACE, {}
    elif isinstance(error, Unauthenticated):
        detail = unauthenticated(error)
    body = _problem(status, error.code, detail, details, retriable=error.retriable) | dict(extra or {})
    return HttpReply(
        status=status,
        body=msgspec.json.encode(body),
        content_type=PROBLEM,
        headers=_headers(status, error.facts.get("retry_after_ms")),
    )


def unauthenticated(error: Unauthenticated) -> str:
    """What it says on HTTP, where nothing is signed anew as on a WebSocket."""
    return f"The request is not authenticated: {error.facts.get('why')}. Make a token with 'stemmadb token'."


def reply_to_problem(problem: HttpProblem) -> HttpReply:
    """The answer to an error of HTTP itself."""
    code = "not_found" if problem.status == HTTPStatus.NOT_FOUND else MALFORMED
    body = _problem(problem.status, code, problem.detail, {}, retriable=problem.status == 503)
    headers = (*problem.headers, *_headers(problem.status, None))
    return HttpReply(status=problem.status, body=msgspec.json.encode(body), content_type=PROBLEM, headers=headers)


def _problem(status: int, code: str, detail: str, details: Mapping[str, Any], *, retriable: bool) -> dict[str, Any]:
    return {
        "type": f"{PAGE}#{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "details": dict(details),
        "retriable": retriable,
    }


def _headers(status: int, wait_ms: object) -> tuple[tuple[str, str], ...]:
    if status == HTTPStatus.UNAUTHORIZED:
        return (("WWW-Authenticate", 'Bearer error="invalid_token"'),)
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        seconds = -(-wait_ms // 1_000) if isinstance(wait_ms, int) else RETRY_AFTER_SECONDS
        return (("Retry-After", str(max(1, seconds))),)
    return ()
