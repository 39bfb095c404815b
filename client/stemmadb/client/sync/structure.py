"""Access lists and tags for apps that block."""

from __future__ import annotations

from stemmadb.client.reading import access, branches
from stemmadb.client.reading.access import AccessList, Grant
from stemmadb.client.reading.branches import Tag
from stemmadb.client.reading.entries import Receipt
from stemmadb.client.sync.portal import Portal
from stemmadb.protocol.model.values.ids import MAIN
from stemmadb.protocol.model.values.json_values import Value


class Acl:
    """The access list.

    access = space.acl.get()
    space.acl.set("did:key:z6Mk...", "write")
    """

    def __init__(self, acl: access.Acl, portal: Portal) -> None:
        self._acl = acl
        self._portal = portal

    def get(self, *, version: int | None = None) -> AccessList:
        """The list now, or as of a version."""
        return self._portal.call(self._acl.get, version=version)

    def set(self, did: str, role: Grant) -> None:
        """Gives an identity a role: `read`, `write` or `own`, each of which includes those before it. Needs `own`."""
        self._portal.call(self._acl.set, did, role)

    def remove(self, did: str) -> None:
        """Takes all rights from an identity; rights delegated to it by a token are not touched. Needs `own`."""
        self._portal.call(self._acl.remove, did)


class Tags:
    """The tags of a space: names for versions, which are kept from being compacted away.

    space.tags.create("v1")
    value = space.at(tag="v1").get("urn:todo:1")
    """

    def __init__(self, tags: branches.Tags, portal: Portal) -> None:
        self._tags = tags
        self._portal = portal

    def create(self, name: str, *, branch: str = MAIN, version: int | None = None, note: Value = None) -> Receipt:
        """Names a version of a branch, or its head."""
        return self._portal.call(self._tags.create, name, branch=branch, version=version, note=note)

    def delete(self, name: str, *, note: Value = None) -> Receipt:
        """Removes a tag; the version it named stays as long as compactions leave it."""
        return self._portal.call(self._tags.delete, name, note=note)

    def list(self) -> list[Tag]:
        """The tags by name."""
        return self._portal.call(self._tags.list)
