"""A space that has one of everything, to verify, export and back up."""

from __future__ import annotations

from blake3 import blake3

from appends import append_to
from logs import LogMaker
from space import BOB, delete_, patch_, set_
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Hash, TimeMs
from stemmadb.server.storage.port import AcceptedWrite, Snapshot, SpaceLog, StoredBlob

SECRET = "nobody may read this again"  # noqa: S105
SMALL = b"a small blob"
LARGE = bytes(range(256)) * 400  # larger than what goes into the database


def blob_of(data: bytes, *, in_file: bool = False) -> StoredBlob:
    return StoredBlob(Hash(blake3(data).digest()), len(data), "text/plain", TimeMs(77), in_file)


def make() -> tuple[LogMaker, list[AcceptedWrite], list[Snapshot]]:
    """Branches that fork off each other, notes, tags, a merge, an erasure, a compaction and snapshots."""
    maker = LogMaker()
    entries: list[AcceptedWrite] = []
    snapshots: list[Snapshot] = []

    def take(entry: AcceptedWrite, *, snapshot: bool = False) -> None:
        entries.append(entry)
        if snapshot:
            made = maker.snapshot(entry.facts[-1])
            assert made is not None
            snapshots.append(made)

    step = {"op": "increment", "path": "/n", "by": 1}
    take(maker.commit(set_("urn:a", {"n": 1}, blind=True), set_("urn:b", "b", blind=True), note=encode(["hi", None])))
    take(maker.commit(set_("urn:secret", SECRET, blind=True), note=encode([SECRET, None]), author=BOB, session="bob"))
    take(maker.create_branch("draft"))
    take(maker.commit(patch_("urn:a", step, blind=True), branch="draft"))
    take(maker.commit(patch_("urn:a", step, step, blind=True), patch_("urn:a", step, blind=True)), snapshot=True)
    take(maker.create_branch("twig", "draft"))
    take(maker.commit(patch_("urn:a", step, blind=True), branch="twig"), snapshot=True)
    take(maker.commit(patch_("urn:a", step, blind=True), branch="draft"))
    take(maker.create_branch("old", "draft", 4))
    take(maker.commit(patch_("urn:a", step, blind=True), set_("urn:only", [], blind=True), branch="old"))
    take(maker.delete_branch("old"))
    take(maker.create_tag("v1"))
    take(maker.create_tag("gone", "draft", 5))
    take(maker.delete_tag("gone"))
    take(maker.erase("urn:secret", [2], survivor="what may stay"))
    take(maker.merge("draft", ids=["urn:a"]))
    take(maker.commit(delete_("urn:b", blind=True), set_("urn:b", {"n": 0}, blind=True)))
    for _ in range(3):
        take(maker.commit(patch_("urn:b", step, blind=True)))
    take(maker.compact(18, checkpoints=[("main", "urn:b")]))
    take(maker.revoke(b"d" * 32))
    take(maker.commit(patch_("urn:b", step, blind=True), set_("urn:c\u00e9", None, blind=True)))
    return maker, entries, snapshots


def fill(log: SpaceLog) -> LogMaker:
    """Fills an empty log with it, in several batches, snapshots and blobs included."""
    maker, entries, snapshots = make()
    at = EMPTY_SPACE
    for begin in range(0, len(entries), 5):
        batch = entries[begin : begin + 5]
        last = batch[-1].commit.version
        append_to(log, at, batch, [one for one in snapshots if at < one.place.version <= last])
        at = last
    log.store_snapshots([made for fact in maker.facts[-2:-1] if (made := maker.snapshot(fact)) is not None])
    if log.owes_scrub:
        log.scrub()
    log.put_blob(blob_of(SMALL), SMALL)
    put_large(log)
    return maker


def put_large(log: SpaceLog) -> None:
    """As an upload leaves it: in a file where there is a place for files."""
    blob = blob_of(LARGE, in_file=log.directory is not None)
    if log.directory is not None:
        folder = log.directory / "blobs"
        folder.mkdir(exist_ok=True)
        (folder / reference.write(blob.hash)).write_bytes(LARGE)
    log.put_blob(blob, None if blob.in_file else LARGE)
