"""The request `acl`: who may do what, and what the caller may (ACL-2)."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.model.access.access_roles import Role
from stemmadb.protocol.model.values.ids import MAIN, Did, EntityId
from stemmadb.protocol.wire.messages.access import AclAnswer, AclRequest
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.service.base.request_context import Caller, RequestContext, reader_for


async def acl(request: AclRequest, caller: Caller, context: RequestContext) -> AclAnswer:
    """The roles as of a version, for callers that may read the access list; the caller's own rights are current."""
    got = await reader_for(caller, context).get(EntityId(context.space.did), ReadMoment(MAIN, request.version))
    roles = {} if got.entity is None else msgspec.convert(got.entity.value, dict[Did, Role])
    return AclAnswer(version=got.version, mine=caller.rights, roles=roles)
