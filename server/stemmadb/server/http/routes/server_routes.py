"""What is not below a space: the caller's spaces, the caller, and the description of everything (TOKEN-1)."""

from __future__ import annotations

from typing import Any

from stemmadb.server.http.base.context import HttpContext
from stemmadb.server.http.base.replies import HttpReply, json_reply
from stemmadb.server.http.callers.bearer import Bearer


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
