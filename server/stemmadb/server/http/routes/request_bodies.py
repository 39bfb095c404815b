"""The body of a request as what its route takes: JSON without doubled keys, of the right media type. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.commit.request import Content
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.codec import bounds
from stemmadb.protocol.wire.codec.json_codec import parse
from stemmadb.protocol.wire.codec.json_form import convert, form_of
from stemmadb.protocol.wire.codec.msgpack_codec import read_content
from stemmadb.protocol.wire.messages.fields import EncodedContent
from stemmadb.protocol.wire.messages.reading import QueryRequest
from stemmadb.server.http.base.error_table import HttpProblem
from stemmadb.server.http.routes import structure_routes
from stemmadb.server.http.routes.route_table import Route

JSON: Final = "application/json"
PATCH: Final = "application/json-patch+json"


def check_media_type(route: Route, given: Sequence[str], coded: Sequence[str], length: int) -> None:
    """415 for a body of another kind, or a compressed one; a body that is not needed may be left out."""
    if length and any(one.lower() != "identity" for one in coded):
        raise HttpProblem(415, "Send the body as it is, without the header Content-Encoding.")
    if route.body in ("none", "bytes") or (route.body == "fields" and not length):
        return
    wanted = PATCH if route.body == "patch" else JSON
    kind = given[0].partition(";")[0].strip().lower() if len(given) == 1 else ""
    if kind != wanted:
        headers = (("Accept-Patch", PATCH),) if route.body == "patch" else ()
        raise HttpProblem(415, f"Send the body with 'Content-Type: {wanted}'.", headers)


def read_body(route: Route, data: bytes, limits: Limits) -> Any:
    """What the route takes; `Malformed` or `InvalidValue` say what is wrong with it."""
    if route.body == "none":
        if data:
            raise Malformed(path="(body)", why="this request has no body")
        return None
    if route.body == "fields" and not data:
        return {}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Malformed(path="(body)", why="it is not UTF-8") from None
    parsed = parse(text)
    if route.body == "content":
        return _content(parsed, limits)
    if route.body == "query":
        read: Query = convert(form_of(Query).read(parsed, "", limits), Query)
        bounds.check_client(QueryRequest(id=1, query=read), limits)
        return read
    if route.body == "fields":
        return structure_routes.check_body(parsed, route.body_type)
    return parsed


def _content(parsed: Any, limits: Limits) -> Content:
    if not isinstance(parsed, dict):
        raise Malformed(path="(body)", why="it is not an object")
    encoded: bytes = form_of(EncodedContent).read(parsed, "", limits)
    return read_content(encoded, limits)
