"""The request `acl`: who may do what, and what the asker may (ACL-2)."""

from __future__ import annotations

import msgspec

from stemmadb.protocol.model.access import Role
from stemmadb.protocol.model.ids import MAIN, Did, EntityId
from stemmadb.protocol.wire.messages.access import AclAnswer, AclRequest
from stemmadb.server.engine.moments import Moment
from stemmadb.server.service.asking import Asker, Desk, reader_for


async def acl(request: AclRequest, asker: Asker, desk: Desk) -> AclAnswer:
    """The roles as of a version, for those who may read where they stand; one's own rights are those of now."""
    got = await reader_for(asker, desk).get(EntityId(desk.space.did), Moment(MAIN, request.version))
    roles = {} if got.entity is None else msgspec.convert(got.entity.value, dict[Did, Role])
    return AclAnswer(version=got.version, mine=asker.rights, roles=roles)
