"""What is durable, read straight from the storage: what every client's view has to come to."""

from __future__ import annotations

from stemmadb.client.testing.storage import KitStorage
from stemmadb.protocol.model.log.commit_record import Commit
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, MAIN, BranchName, Did, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import listing


class Truth:
    """Answers also while the server is down, and asks nobody."""

    def __init__(self, storage: KitStorage) -> None:
        self._storage = storage

    def version(self, space: Did) -> Version:
        """The last commit; 0 in a space that is not there."""
        return self._storage.backup().versions().get(space, EMPTY_SPACE)

    def commits(self, space: Did) -> list[Commit]:
        """Every commit, oldest first."""
        if not self.version(space):
            return []
        with self._storage.open(space).reader() as reader:
            return [commit for commit, _ in reader.history()]

    def entities(self, space: Did, prefix: str = "", *, branch: str = MAIN) -> dict[EntityId, Value]:
        """The entities under a prefix and their values; the space's own access list is one of them."""
        found: dict[EntityId, Value] = {}
        if not self.version(space):
            return found
        after: EntityId | None = None
        with self._storage.open(space).reader() as reader:
            while True:
                page = listing.page(reader, prefix, ReadMoment(branch=BranchName(branch)), after=after)
                found |= {one.id: body.read_stored(one.body) for one in page.entities}
                after = page.next
                if after is None:
                    return found
