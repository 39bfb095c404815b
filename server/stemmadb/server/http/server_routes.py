"""What is not below a space: the caller's spaces, the caller, and the description of everything (TOKEN-1)."""

from __future__ import annotations

from typing import Any

from stemmadb.server.http.bearer import Bearer
from stemmadb.server.http.context import HttpContext
from stemmadb.server.http.replies import HttpReply, json_reply


async def spaces(context: HttpContext, bearer: Bearer) -> HttpReply:
    """The spaces whose access list names the caller; an operator sees all of them, with size and head."""
    found: list[dict[str, Any]] = []
    if context.membership is not None:
        is_operator = bearer.principal in context.operators
        found = await (context.membership.all() if is_operator else context.membership.of(bearer.principal))
    return json_reply({"spaces": found})


async def me(context: HttpContext, bearer: Bearer) -> HttpReply:
    """Who the caller is, and until when its token holds."""
    token = bearer.token
    return json_reply(
        {
            "server": context.server,
            "principal": token.principal,
            "expires": token.expires,
            "operator": token.principal in context.operators,
        }
    )
