"""Every route: its method and path, its parameters, its body and its answer. OpenAPI is made of this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from stemmadb.protocol import identity
from stemmadb.protocol.model.commit.request import Content
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.messages import overview, reading, structure
from stemmadb.protocol.wire.messages.access import AclAnswer
from stemmadb.protocol.wire.messages.base import Part, Written
from stemmadb.protocol.wire.messages.blobs import BlobStored
from stemmadb.server.http.base.parameters import PageParams, Params
from stemmadb.server.http.base.replies import HttpReply
from stemmadb.server.http.routes import blob_routes, overview_routes, read_routes, structure_routes
from stemmadb.server.http.routes.entity_routes import (
    EntitiesParams,
    EntityParams,
    EntityRoutes,
    EntityWriteParams,
    commit_reply,
)
from stemmadb.server.http.routes.read_routes import NoParams
from stemmadb.server.http.streams import watch_routes
from stemmadb.server.http.writes.commits import CommitWriter

SPACES: Final = "/v1/spaces"
SPACE: Final = "/v1/spaces/{space}"
ME: Final = "/v1/me"
OPENAPI: Final = "/v1/openapi.json"
ROOTS: Final = (SPACES, ME, OPENAPI)

CONDITIONS: Final = ("If-Match", "If-None-Match")

BodyKind: TypeAlias = Literal["none", "value", "patch", "content", "query", "fields", "bytes"]
Handle: TypeAlias = Callable[..., Awaitable[HttpReply]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path below a space."""

    method: str
    path: str
    """Below the space: "" is the space itself."""
    summary: str
    handle: Handle
    params: type[Params] = NoParams
    body: BodyKind = "none"
    body_type: Any = None
    """The message, or part of one, that the body has the fields of."""
    answer: type[Part] | None = None
    """What an answer of status `status` holds; None for any JSON, or bytes."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other statuses without an error: 206 for a part, 304 for what the client has."""
    content: tuple[str, ...] = ("application/json",)
    """Media types of an answer."""
    headers: tuple[str, ...] = ()
    """Headers that it takes beside those of every request."""
    writes: bool = False
    """Whether it takes Idempotency-Key."""


class Place(NamedTuple):
    """A path, read: which pattern it has, and the names in it."""

    pattern: str
    space: str = ""
    blob: str = ""


def place_of(path: str) -> Place | None:
    """None if there is nothing at the path."""
    if path in ROOTS:
        return Place(path)
    if not path.startswith(SPACES + "/"):
        return None
    space, slash, rest = path[len(SPACES) + 1 :].partition("/")
    space = space.replace("%3A", ":").replace("%3a", ":")
    below = slash + rest
    if rest.startswith("blobs/"):
        return Place("/blobs/{blob}", space, rest[len("blobs/") :].replace("%3A", ":").replace("%3a", ":"))
    return Place(below, space) if below in BELOW else None


def space_of(text: str) -> Did:
    """`InvalidDid` if it is none."""
    identity.public_key(text)
    return Did(text)


def routes(writer: CommitWriter) -> tuple[Route, ...]:
    """All routes below a space."""
    entities = EntityRoutes(writer)

    async def commits(call: Any) -> HttpReply:
        done = await writer.write(call, call.body)
        return commit_reply(done, status=201, headers=done.headers)

    read, build, blobs, overviews = read_routes, structure_routes, blob_routes, overview_routes
    return (
        Route(
            method="GET", path="", summary="The head of the space, and the caller's rights.", handle=read.get_space
        ),
        Route(
            method="GET",
            path="/acl",
            summary="The access list.",
            handle=read.get_acl,
            params=read.AclParams,
            answer=AclAnswer,
        ),
        Route(
            method="GET",
            path="/entity",
            summary="One value.",
            handle=entities.get,
            params=EntityParams,
            also=(304,),
            headers=("If-None-Match",),
        ),
        Route(
            method="PUT",
            path="/entity",
            summary="Replaces a value.",
            handle=entities.put,
            params=EntityWriteParams,
            body="value",
            answer=Written,
            headers=CONDITIONS,
            writes=True,
        ),
        Route(
            method="PATCH",
            path="/entity",
            summary="Changes parts of a value by a JSON Patch.",
            handle=entities.patch,
            params=EntityWriteParams,
            body="patch",
            answer=Written,
            headers=CONDITIONS,
            writes=True,
        ),
        Route(
            method="DELETE",
            path="/entity",
            summary="Deletes an entity.",
            handle=entities.delete,
            params=EntityWriteParams,
            answer=Written,
            headers=CONDITIONS,
            writes=True,
        ),
        Route(
            method="GET",
            path="/entities",
            summary="Entities by id prefix.",
            handle=entities.list,
            params=EntitiesParams,
            answer=reading.QueryAnswer,
        ),
        Route(
            method="GET",
            path="/entities/count",
            summary="How many entities there are under a prefix.",
            handle=overviews.count,
            params=overviews.CountParams,
            answer=overview.CountAnswer,
        ),
        Route(
            method="GET",
            path="/entities/prefixes",
            summary="The children of a prefix.",
            handle=overviews.prefixes,
            params=overviews.PrefixesParams,
            answer=overview.PrefixesAnswer,
        ),
        Route(
            method="POST",
            path="/commits",
            summary="Writes several entities together.",
            handle=commits,
            body="content",
            body_type=Content,
            answer=Written,
            status=201,
            writes=True,
        ),
        Route(
            method="POST",
            path="/query",
            summary="Runs a query.",
            handle=read.query,
            params=read.QueryParams,
            body="query",
            body_type=Query,
            answer=reading.QueryAnswer,
        ),
        Route(
            method="GET",
            path="/log",
            summary="Commits.",
            handle=read.log,
            params=read.LogParams,
            answer=reading.LogAnswer,
        ),
        Route(
            method="GET",
            path="/log/histogram",
            summary="How many commits there are, by version or by time.",
            handle=overviews.histogram,
            params=overviews.HistogramParams,
            answer=reading.HistogramAnswer,
        ),
        Route(
            method="GET",
            path="/diff",
            summary="What differs between two states.",
            handle=read.diff,
            params=read.DiffParams,
            answer=reading.DiffAnswer,
        ),
        Route(
            method="GET",
            path="/entity/history",
            summary="The facts of one entity.",
            handle=read.history,
            params=read.HistoryParams,
            answer=reading.HistoryAnswer,
        ),
        Route(
            method="GET",
            path="/entity/blame",
            summary="Who wrote each part of a value.",
            handle=read.blame,
            params=read.BlameParams,
            answer=reading.BlameAnswer,
        ),
        Route(
            method="GET",
            path="/branches",
            summary="The branches.",
            handle=build.list_branches,
            params=PageParams,
            answer=structure.BranchesAnswer,
        ),
        Route(
            method="GET",
            path="/tags",
            summary="The tags.",
            handle=build.list_tags,
            params=PageParams,
            answer=structure.TagsAnswer,
        ),
        Route(
            method="GET",
            path="/branch",
            summary="One branch.",
            handle=build.get_branch,
            params=build.NameParams,
            answer=structure.BranchEntry,
        ),
        Route(
            method="POST",
            path="/branch",
            summary="Creates a branch.",
            handle=build.create_branch,
            params=build.NameParams,
            body="fields",
            body_type=structure.CreateBranch,
            answer=Written,
            status=201,
            writes=True,
        ),
        Route(
            method="DELETE",
            path="/branch",
            summary="Deletes a branch.",
            handle=build.delete_branch,
            params=build.NameParams,
            answer=Written,
            writes=True,
        ),
        Route(
            method="GET",
            path="/tag",
            summary="One tag.",
            handle=build.get_tag,
            params=build.NameParams,
            answer=structure.TagEntry,
        ),
        Route(
            method="POST",
            path="/tag",
            summary="Creates a tag.",
            handle=build.create_tag,
            params=build.NameParams,
            body="fields",
            body_type=structure.CreateTag,
            answer=Written,
            status=201,
            writes=True,
        ),
        Route(
            method="DELETE",
            path="/tag",
            summary="Deletes a tag.",
            handle=build.delete_tag,
            params=build.NameParams,
            answer=Written,
            writes=True,
        ),
        Route(
            method="POST",
            path="/merges",
            summary="Merges a branch into another.",
            handle=build.merge,
            body="fields",
            body_type=structure.MergeRequest,
            answer=structure.MergeReport,
            writes=True,
        ),
        Route(
            method="POST",
            path="/reverts",
            summary="Undoes commits.",
            handle=build.revert,
            body="fields",
            body_type=structure.RevertRequest,
            answer=structure.RevertAnswer,
            writes=True,
        ),
        Route(
            method="GET",
            path="/watch",
            summary="A stream of events that keeps a query true, or with wait a long poll.",
            handle=watch_routes.watch,
            params=watch_routes.WatchParams,
            content=("text/event-stream", "application/json"),
            headers=("Last-Event-ID",),
        ),
        Route(
            method="POST",
            path="/blobs",
            summary="Stores bytes.",
            handle=blobs.post_blob,
            params=blobs.BlobParams,
            body="bytes",
            answer=BlobStored,
            status=201,
        ),
        Route(
            method="GET",
            path="/blobs/{blob}",
            summary="The bytes of a blob.",
            handle=blobs.get_blob,
            params=blobs.BlobParams,
            also=(206, 304),
            content=("*/*",),
            headers=("If-None-Match", "If-Range", "Range"),
        ),
        Route(
            method="PUT",
            path="/blobs/{blob}",
            summary="Stores bytes under their name.",
            handle=blobs.put_blob,
            params=blobs.BlobParams,
            body="bytes",
            answer=BlobStored,
        ),
    )


BELOW: Final = frozenset(
    {
        "", "/acl", "/entity", "/entities", "/commits", "/query", "/log", "/diff", "/entity/history", "/entity/blame",
        "/entities/count", "/log/histogram", "/entities/prefixes",
        "/branches", "/tags", "/branch", "/tag", "/merges", "/reverts", "/blobs", "/watch",
    }
)  # fmt: skip
