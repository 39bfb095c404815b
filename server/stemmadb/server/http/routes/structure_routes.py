"""Branches, tags, merges and reverts: each write is a message that is done once (HTTP-5, HTTP-9)."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from stemmadb.protocol.errors import IdentityClash, Malformed, UnknownBranch, UnknownTag
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import RANDOM_ID_BYTES, BranchName
from stemmadb.protocol.wire.codec import bounds
from stemmadb.protocol.wire.codec.json_form import convert, form_of
from stemmadb.protocol.wire.messages.base import WriteRequest
from stemmadb.protocol.wire.messages.structure import (
    BranchEntry,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    ListBranches,
    ListTags,
    MergeRequest,
    RevertRequest,
    TagEntry,
)
from stemmadb.server.http.base.parameters import PageParams, Params
from stemmadb.server.http.base.replies import HttpReply, part_reply
from stemmadb.server.http.callers.calls import SpaceCall
from stemmadb.server.http.routes.entity_routes import next_link
from stemmadb.server.http.routes.read_routes import NoParams
from stemmadb.server.http.writes.commits import clash, space_key
from stemmadb.server.http.writes.identities import TAG_OPERATION, check_key, keyed
from stemmadb.server.storage.port import HttpKey

OURS: Final = frozenset({"type", "id", "operation", "nonce"})
"""Fields of a message that a request's body does not have: they follow from its key."""
W = TypeVar("W", bound=WriteRequest)


class NameParams(Params, frozen=True, kw_only=True):
    """The name of a branch or a tag."""

    name: str


async def list_branches(call: SpaceCall[PageParams]) -> HttpReply:
    answer = await call.ask(ListBranches(id=1, after=call.params.after, limit=call.params.limit))
    return part_reply(answer, headers=next_link(call, answer.next))


async def list_tags(call: SpaceCall[PageParams]) -> HttpReply:
    answer = await call.ask(ListTags(id=1, after=call.params.after, limit=call.params.limit))
    return part_reply(answer, headers=next_link(call, answer.next))


async def get_branch(call: SpaceCall[NameParams]) -> HttpReply:
    name = ids.branch_name(call.params.name)
    found = await _find(call, ListBranches, "branches", name)
    if found is None:
        raise UnknownBranch(branch=name)
    assert isinstance(found, BranchEntry)
    return part_reply(found)


async def get_tag(call: SpaceCall[NameParams]) -> HttpReply:
    name = ids.branch_name(call.params.name)
    found = await _find(call, ListTags, "tags", name)
    if found is None:
        raise UnknownTag(tag=name)
    assert isinstance(found, TagEntry)
    return part_reply(found)


async def _find(call: SpaceCall[Any], kind: Any, field: str, name: BranchName) -> Any:
    after: str | None = None
    while True:
        page = await call.ask(kind(id=1, after=after))
        found = next((one for one in getattr(page, field) if one.name == name), None)
        if found is not None or page.next is None:
            return found
        after = page.next


async def create_branch(call: SpaceCall[NameParams]) -> HttpReply:
    return await _write(call, CreateBranch, {"name": call.params.name}, status=201)


async def delete_branch(call: SpaceCall[NameParams]) -> HttpReply:
    return await _write(call, DeleteBranch, {"name": call.params.name})


async def create_tag(call: SpaceCall[NameParams]) -> HttpReply:
    return await _write(call, CreateTag, {"name": call.params.name}, status=201)


async def delete_tag(call: SpaceCall[NameParams]) -> HttpReply:
    return await _write(call, DeleteTag, {"name": call.params.name})


async def merge(call: SpaceCall[NoParams]) -> HttpReply:
    return await _write(call, MergeRequest, {})


async def revert(call: SpaceCall[NoParams]) -> HttpReply:
    return await _write(call, RevertRequest, {})


async def _write(call: SpaceCall[Any], kind: type[W], named: dict[str, Any], *, status: int = 200) -> HttpReply:
    key, secret = call.head.one("idempotency-key"), None
    headers: tuple[tuple[str, str], ...] = ()
    if key is None:
        operation, nonce = call.context.random(RANDOM_ID_BYTES), call.context.random(RANDOM_ID_BYTES)
        headers = (("Stemma-Identity", operation.hex()),)
    else:
        secret = await space_key(call)
        identity = keyed(call.principal, check_key(key), secret.key, tag=TAG_OPERATION)
        operation, nonce = identity.name, identity.nonce
    given = {name: value for name, value in (call.body or {}).items() if name not in named}
    answer = await _ask(call, _message(call, kind, given | named, operation, nonce), secret)
    return part_reply(answer, status=status, headers=headers)


def _message(call: SpaceCall[Any], kind: type[W], given: dict[str, Any], operation: bytes, nonce: bytes) -> W:
    ours = {"type": kind.__struct_config__.tag, "id": 1, "operation": operation, "nonce": nonce}
    message: W = convert(form_of(kind).read(given, "", call.limits) | ours, kind)
    bounds.check_client(message, call.limits)  # type: ignore[arg-type]  # every write is a message of a client
    return message


async def _ask(call: SpaceCall[Any], message: WriteRequest, secret: HttpKey | None) -> Any:
    try:
        return await call.ask(message)
    except IdentityClash as error:
        raise clash(error, secret) from None


def check_body(body: Any, kind: type[WriteRequest]) -> dict[str, Any]:
    """The body of a structure write: an object with fields of the message, without those that follow from its key."""
    if body is None:
        return {}
    known = {field.encode_name for field in msgspec.structs.fields(kind)} - OURS
    if not isinstance(body, dict):
        raise Malformed(path="(body)", why="it is not an object")
    unknown = next((name for name in body if name not in known), None)
    if unknown is not None:
        raise Malformed(path=str(unknown)[:80], why="there is no such field here")
    return body
