"""The blobs of a space: uploaded in chunks, kept once, verified when written and when read (BLOB-1, BLOB-2).

Small blobs are in the database, large ones in files (`blob_files`); uploads wait until they are whole (`uploads`).
A file appears, and goes, only in the turn of the writer that puts or misses its row, so that the two never disagree;
the slow work before that (receiving, hashing, syncing) is done outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from stemmadb.protocol.errors import BlobMismatch, LimitExceeded, Malformed, Unavailable, UnknownBlob
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import HASH_BYTES, EntityId, Hash, TimeMs
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.base.space_port import SpaceApi
from stemmadb.server.engine.blobs.blob_files import BlobFiles
from stemmadb.server.engine.blobs.uploads import NOBODY, Upload, UploadKey, Uploads, Whole
from stemmadb.server.storage.port import LargeBlobs, LogReader, SpaceLog, StoredBlob

INLINE_BYTES_MAX: Final = 64 * 1024
UPLOADS_MAX: Final = 1_024
UPLOADS_EACH_MAX: Final = 64
"""Uploads of one principal."""
UPLOAD_KEEP_MS: Final = 24 * 60 * 60 * 1000
RENEW_AFTER_MS: Final = 60 * 60 * 1000
"""A blob that is sent again within this time of its upload is safe for long enough as it is."""
STRAY_KEEP_MS: Final = 24 * 60 * 60 * 1000
"""How long a blob without a row stays where several processes put blobs."""
CONTENT_TYPE_MAX: Final = 255
ANY_CONTENT: Final = "application/octet-stream"
_SWEPT_IN_TURN_MAX: Final = 100  # so that a sweep does not keep commits waiting


class Offset(msgspec.Struct, frozen=True):
    """How many bytes of an upload are here, from the first on; `stored` if the blob is there and verified."""

    offset: int
    stored: bool = False


class BlobRange(msgspec.Struct, frozen=True):
    """Verified bytes of a blob from `offset` on."""

    blob: StoredBlob
    offset: int
    data: bytes


class Swept(msgspec.Struct, frozen=True):
    """What a sweep removed: uploads that nobody went on with, and files that have no row."""

    uploads: int
    files: int


def metadata_id(hash_: Hash) -> EntityId:
    """The entity in which an app keeps what it knows of a blob; an ordinary one (BLOB-1)."""
    return EntityId(f"urn:blob-meta:{reference.write(hash_)}")


class BlobStore:
    """The blobs of one open space, used from its event loop."""

    def __init__(  # noqa: PLR0913  # most have a default
        self,
        space: SpaceApi,
        *,
        directory: Path | None,
        large: LargeBlobs | None,
        workers: Workers,
        now: Callable[[], TimeMs],
        uploads_max: int = UPLOADS_MAX,
        uploads_each_max: int = UPLOADS_EACH_MAX,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        upload_keep_ms: int = UPLOAD_KEEP_MS,
    ) -> None:
        self._space = space
        self._workers = workers
        self._now = now
        self._inline_bytes_max = inline_bytes_max
        self._upload_keep_ms = upload_keep_ms
        self._files = None if large is None else BlobFiles(large)
        self._uploads = Uploads(
            directory,
            uploads_max=uploads_max,
            each_max=uploads_each_max,
            makes_directory=large is not None and large.is_shared,  # others have made it with the file of the space
        )

    @property
    def uploads(self) -> list[UploadKey]:
        """The uploads under way; looks at files, where there are any."""
        return self._uploads.under_way()

    # -- writing

    async def begin(
        self, hash_: Hash, *, size: int, content_type: str = ANY_CONTENT, uploader: str = NOBODY
    ) -> Offset:
        """Begins an upload or says where it goes on; a blob that is there need not be sent again.

        Each uploader has uploads of its own: what others send of the same blob neither helps nor harms it.

        `BlobMismatch` if bytes of it are here already that somebody announced with another size.
        A blob whose stored bytes are damaged counts as not there, so that sending it again repairs it. One that is
        there is as safe from a compaction as one that is sent now (BLOB-2).
        """
        self._check(hash_, size, content_type)
        stored = await self._stored(hash_)
        if stored is None or not await self._renewed(stored):
            key = UploadKey(hash_, uploader)
            return await self._work_on(hash_, partial(self._begin, key, size, content_type, self._now()))
        if stored.size != size:
            raise BlobMismatch(blob=reference.write(hash_), why=f"it has {stored.size} bytes and not {size}")
        return Offset(size, stored=True)

    async def chunk(self, hash_: Hash, *, offset: int, data: bytes, uploader: str = NOBODY) -> Offset:
        """Takes bytes where the last ones ended; `Malformed` with the right `offset` if they begin elsewhere."""
        if len(data) > (maximum := self._space.limits.blob_chunk_bytes_max):
            raise LimitExceeded(bound="blob_chunk_bytes_max", maximum=maximum, actual=len(data))
        key = UploadKey(hash_, uploader)
        return await self._work_on(hash_, partial(self._append, key, offset, data, self._now()))

    async def end(self, hash_: Hash, *, uploader: str = NOBODY) -> StoredBlob:
        """Keeps an upload if its bytes give its name; returns once it is durable. Ending it again does no harm."""
        key = UploadKey(hash_, uploader)
        whole = await self._workers.run(partial(self._verify, key))
        if whole is None:
            return await self.stat(hash_)
        return await self._space.in_turn(partial(self._keep, key=key, whole=whole, now=self._now()))

    async def put(self, data: bytes, content_type: str = ANY_CONTENT) -> StoredBlob:
        """Keeps bytes as a blob, in as many chunks as it takes."""
        hash_ = Hash(blake3(data).digest())
        at = await self.begin(hash_, size=len(data), content_type=content_type)
        while at.offset < len(data):
            end = at.offset + self._space.limits.blob_chunk_bytes_max
            at = await self.chunk(hash_, offset=at.offset, data=data[at.offset : end])
        return await self.end(hash_)

    # -- reading

    async def stat(self, hash_: Hash) -> StoredBlob:
        """What is known of a blob; `UnknownBlob` if it is not there."""
        stored = await self._space.read(lambda reader: reader.blob(hash_))
        if stored is None:
            raise UnknownBlob(blob=reference.write(hash_))
        return stored

    async def read(self, hash_: Hash, *, offset: int = 0, length: int | None = None) -> BlobRange:
        """At most `length` bytes, and at most a chunk; `BlobMismatch` if what is stored is not the blob (BLOB-1)."""
        _check_count("/offset", offset)
        _check_count("/length", length or 0)
        length_max = self._space.limits.blob_chunk_bytes_max
        wanted = length_max if length is None else min(length, length_max)
        stored, data = await self._space.read(lambda reader: _look_up(reader, hash_))
        if offset > stored.size:
            raise Malformed(path="/offset", why=f"the blob has {stored.size} bytes", size=stored.size)
        wanted = min(wanted, stored.size - offset)
        if data is not None:
            return BlobRange(stored, offset, data[offset : offset + wanted])
        return BlobRange(stored, offset, await self._read_file(stored, offset, wanted))

    # -- keeping clean

    async def remove(self, hashes: Collection[Hash]) -> int:
        """Removes what files hold of blobs whose rows are gone, half uploads included; how many blob files."""
        await self._workers.run(lambda: self._uploads.drop(hashes))
        return await self._space.in_turn(lambda log: self._remove(log, hashes))

    async def drop_uploads(self, uploaders: Collection[str]) -> None:
        """Ends the uploads of principals that may not upload any more."""
        await self._workers.run(lambda: self._uploads.drop_of(uploaders))

    async def sweep(self) -> Swept:
        """Removes uploads that nobody went on with for `upload_keep_ms`, and files that have no row (BLOB-2)."""
        since = TimeMs(self._now() - self._upload_keep_ms)
        uploads = await self._workers.run(lambda: self._uploads.sweep(since))
        files = 0
        for group in _groups(await self._strays()):
            files += await self._space.in_turn(partial(self._remove, hashes=group))
        return Swept(uploads, files)

    # -- on the loop

    def _check(self, hash_: Hash, size: int, content_type: str) -> None:
        assert len(hash_) == HASH_BYTES, "a blob is named by 32 bytes"
        _check_count("/size", size)
        if size > (maximum := self._space.limits.blob_bytes_max):
            raise LimitExceeded(bound="blob_bytes_max", maximum=maximum, actual=size)
        if len(content_type) > CONTENT_TYPE_MAX or not content_type.isprintable():
            raise Malformed(path="/content_type", why=f"it is no text of at most {CONTENT_TYPE_MAX} characters")

    async def _stored(self, hash_: Hash) -> StoredBlob | None:
        """The blob if it is there and its bytes give its name."""
        with suppress(UnknownBlob, BlobMismatch):
            stored, data = await self._space.read(lambda reader: _look_up(reader, hash_))
            if data is None:
                await self._workers.run(lambda: self._of_files().check(hash_, stored.size))
            return stored
        return None

    async def _renewed(self, stored: StoredBlob) -> bool:
        """Whether it is still there, now safe for as long as a new one."""
        now = self._now()
        if now - stored.created < RENEW_AFTER_MS:
            return True
        return await self._space.in_turn(lambda log: log.renew_blob(stored.hash, now))

    async def _work_on(self, hash_: Hash, work: Callable[[], int | None]) -> Offset:
        """Work on an upload; where there is none, the blob may have been kept meanwhile."""
        offset = await self._workers.run(work)
        return Offset((await self.stat(hash_)).size, stored=True) if offset is None else Offset(offset)

    async def _read_file(self, stored: StoredBlob, offset: int, length: int) -> bytes:
        files, hash_ = self._of_files(), stored.hash
        try:
            return await self._workers.run(lambda: files.part(hash_, stored.size, offset=offset, length=length))
        except BlobMismatch:
            await self.stat(hash_)  # it may have been dropped while it was read
            raise

    async def _strays(self) -> Sequence[Hash]:
        """Where others put blobs too, only what has been there for long: a row may still come."""
        if self._files is None:
            return ()
        since = TimeMs(self._now() - STRAY_KEEP_MS)
        names = await self._workers.run(self._files.names)
        old = [name.hash for name in names if not self._files.is_shared or name.put_at < since]
        return await self._space.read(lambda reader: [hash_ for hash_ in old if reader.blob(hash_) is None])

    def _of_files(self) -> BlobFiles:
        if self._files is None:
            raise Unavailable("The bytes of this blob are in a directory that this server was not given.")
        return self._files

    # -- in worker threads

    def _begin(self, key: UploadKey, size: int, content_type: str, now: TimeMs) -> int | None:
        with self._uploads.beginning(key) as upload:
            return None if upload is None else upload.begin(size, content_type, now)

    def _append(self, key: UploadKey, offset: int, data: bytes, now: TimeMs) -> int | None:
        with self._uploads.using(key) as upload:
            return None if upload is None else upload.append(offset, data, now)

    def _verify(self, key: UploadKey) -> Whole | None:
        with self._uploads.using(key) as upload:
            return None if upload is None else upload.verify(goes_to_file=self._goes_to_file)

    def _goes_to_file(self, size: int) -> bool:
        return self._files is not None and size > self._inline_bytes_max

    # -- in the writer's turn

    def _keep(self, log: SpaceLog, key: UploadKey, whole: Whole, now: TimeMs) -> StoredBlob:
        """The file before the row, so that no crash leaves a row without its file."""
        with self._uploads.using(key) as upload:
            with log.reader() as reader:
                stored, data = reader.blob(whole.hash), reader.blob_data(whole.hash)
            if upload is None or upload.whole is not whole:
                if stored is None:
                    raise Unavailable  # somebody began it anew with another size
                return stored
            if stored is not None and data != whole.data:
                log.drop_blobs([whole.hash])  # what the database holds is damaged
                stored = None
            new = self._put(log, upload, whole, now)
        return stored or new

    def _put(self, log: SpaceLog, upload: Upload, whole: Whole, now: TimeMs) -> StoredBlob:
        blob = StoredBlob(whole.hash, whole.size, whole.content_type, now, in_file=whole.data is None)
        if blob.in_file:
            try:
                self._of_files().adopt(self._uploads.path(upload.key), whole.hash)
            finally:
                upload.close()  # its bytes have moved, whether all of it comes through or not
        log.put_blob(blob, whole.data)
        upload.close()
        return blob

    def _remove(self, log: SpaceLog, hashes: Collection[Hash]) -> int:
        """No file of a blob that has a row: it may have been uploaded again."""
        if self._files is None:
            return 0
        with log.reader() as reader:
            unused = [hash_ for hash_ in hashes if reader.blob(hash_) is None]
        return self._files.remove(unused)


def _check_count(path: str, count: int) -> None:
    if count < 0:
        raise Malformed(path=path, why="a number of bytes is never negative")


def _look_up(reader: LogReader, hash_: Hash) -> tuple[StoredBlob, bytes | None]:
    """A blob and its bytes if they are in the database; `UnknownBlob`, or `BlobMismatch` if they are not its own."""
    stored = reader.blob(hash_)
    if stored is None:
        raise UnknownBlob(blob=reference.write(hash_))
    if stored.in_file:
        return stored, None
    data = reader.blob_data(hash_)
    if data is None or blake3(data).digest() != hash_:
        raise BlobMismatch(blob=reference.write(hash_), why="what the database holds was changed")
    return stored, data


def _groups(hashes: Sequence[Hash]) -> Iterable[Sequence[Hash]]:
    return (hashes[at : at + _SWEPT_IN_TURN_MAX] for at in range(0, len(hashes), _SWEPT_IN_TURN_MAX))
