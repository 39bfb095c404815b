"""What changed between two versions for one who was away: time follows the change (RESUME-1)."""

from __future__ import annotations

import msgspec
import pytest

from service_peers import ALICE, put, remove, service_harness
from stemmadb.protocol.model.access.access_roles import EVERY_ID
from stemmadb.protocol.model.query import query
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.service.watch.evaluation import difference
from stemmadb.server.service.watch.watch_journal import Delta


@pytest.mark.rule("RESUME-1")
async def test_without_a_schema_only_what_changed_is_looked_at() -> None:
    async with service_harness() as home:
        alice = await home.peer(ALICE).open()
        for number in range(20):
            await alice.commit(put(f"urn:{number:02}", number))
        at = alice.connection.to
        space = await home.store.space(home.space)
        prepared = query.prepare(Query(roots=(Root("urn:*"), Root("urn:05"))), space=home.space)

        async def changed(limits: Limits = DEFAULTS) -> Delta:
            return (await difference(space, prepared, EVERY_ID, after=at, to=None, limits=limits))[1]

        assert (await changed()).is_empty()
        await alice.commit(put("urn:03", "new"), remove("urn:04"), put("urn:99", 1))
        few = msgspec.structs.replace(DEFAULTS, query_entities_max=5)
        for delta in (await changed(), await changed(few)):  # the whole answer would be too many
            told = [sorted(map(str, ids)) for ids in (delta.entered, delta.updated, delta.left)]
            assert told == [["urn:99"], ["urn:03"], ["urn:04"]]
