"""What a client says of its pending commits when it comes back."""

from __future__ import annotations

import pytest

from session_worlds import Stage, staged
from stemmadb.protocol.model.values.limits import DEFAULTS


@pytest.mark.rule("RESUME-1", "RESUME-3")
@staged
async def test_a_client_comes_back_with_the_lowest_of_its_undecided_commits(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", 1)).confirmed()
    app.line.offline()
    for value in (2, 3):
        await app.set("urn:a", value)
    session = app.core.session
    undecided = tuple(one.name.local for one in session.nursery.pending())
    standing = session.standing(DEFAULTS)
    assert len(undecided) == 2
    assert (standing.lowest, standing.held) == (undecided[0], undecided)
    app.line.online()
    await app.space.settled()
    assert session.standing(DEFAULTS).lowest == undecided[-1] + 1
