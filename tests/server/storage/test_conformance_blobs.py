"""Every backend: blobs are kept beside the log, by their hash (BLOB-1)."""

from __future__ import annotations

import pytest

from backends import Backend
from space import BOB
from stemmadb.protocol.model.values.ids import Hash, TimeMs
from stemmadb.server.storage.port import SpaceLog, StoredBlob

ONE = StoredBlob(Hash(b"1" * 32), 3, "text/plain", TimeMs(5), in_file=False)
EMPTY = StoredBlob(Hash(b"2" * 32), 0, "", TimeMs(0), in_file=False)
LARGE = StoredBlob(Hash(b"3" * 32), 2**40, "video/mp4", TimeMs(7), in_file=True)


@pytest.mark.rule("BLOB-1")
def test_a_blob_is_kept_with_its_data_or_with_the_word_that_it_is_in_a_file(backend: Backend) -> None:
    log = backend.open()
    for blob, data in ((ONE, b"\x00\xffz"), (EMPTY, b""), (LARGE, None)):
        log.put_blob(blob, data)
    with backend.reopen().reader() as reader:
        assert sorted(reader.blobs(), key=lambda blob: blob.hash) == [ONE, EMPTY, LARGE]
        assert [reader.blob(blob.hash) for blob in (ONE, EMPTY, LARGE)] == [ONE, EMPTY, LARGE]
        assert [reader.blob_data(blob.hash) for blob in (ONE, EMPTY, LARGE)] == [b"\x00\xffz", b"", None]


@pytest.mark.rule("BLOB-1")
def test_a_blob_that_is_there_stays_as_it_is(log: SpaceLog) -> None:
    log.put_blob(ONE, b"abc")
    log.put_blob(StoredBlob(ONE.hash, 3, "image/png", TimeMs(9), in_file=False), b"abc")
    log.put_blob(StoredBlob(ONE.hash, 3, "image/png", TimeMs(9), in_file=True), None)
    with log.reader() as reader:
        assert list(reader.blobs()) == [ONE]
        assert reader.blob_data(ONE.hash) == b"abc"


@pytest.mark.rule("BLOB-2")
def test_a_blob_that_is_uploaded_again_is_as_new_and_keeps_everything_else(backend: Backend) -> None:
    log = backend.open()
    log.put_blob(ONE, b"abc")
    assert log.renew_blob(ONE.hash, TimeMs(99))
    assert not log.renew_blob(LARGE.hash, TimeMs(99))
    with backend.reopen().reader() as reader:
        assert list(reader.blobs()) == [StoredBlob(ONE.hash, 3, "text/plain", TimeMs(99), in_file=False)]
        assert reader.blob_data(ONE.hash) == b"abc"


@pytest.mark.rule("BLOB-2")
def test_a_dropped_blob_is_gone_and_can_be_put_again(backend: Backend) -> None:
    log = backend.open()
    log.put_blob(ONE, b"abc")
    log.put_blob(LARGE, None)
    log.drop_blobs([ONE.hash, Hash(b"9" * 32)])
    log.drop_blobs([])
    log = backend.reopen()
    with log.reader() as reader:
        assert list(reader.blobs()) == [LARGE]
        assert reader.blob(ONE.hash) is None
        assert reader.blob_data(ONE.hash) is None
    log.put_blob(ONE, b"abc")
    with log.reader() as reader:
        assert reader.blob(ONE.hash) == ONE


def test_blobs_of_one_space_are_not_those_of_another(backend: Backend) -> None:
    backend.open().put_blob(ONE, b"abc")
    with backend.open(BOB).reader() as reader:
        assert list(reader.blobs()) == []
        assert reader.blob(ONE.hash) is None
