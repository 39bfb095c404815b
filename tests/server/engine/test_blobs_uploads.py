"""Uploads and threads: whoever waits for an upload that ends meanwhile finds it closed, and disturbs no later one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import cast

import pytest

from blob_space import SMALL, name_of
from stemmadb.protocol.errors import LimitExceeded
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server.engine.blobs.uploads import Upload, UploadKey, Uploads

NAME = UploadKey(name_of(SMALL))
NOW = TimeMs(1_000)


class Watched:
    """A lock that says when somebody waits for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.is_wanted = Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_wanted.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.fixture(params=["files", "memory"])
def uploads(request: pytest.FixtureRequest, tmp_path: Path) -> Uploads:
    return Uploads(tmp_path if request.param == "files" else None, uploads_max=10)


def begun(uploads: Uploads) -> Upload:
    with uploads.beginning(NAME) as upload:
        assert upload is not None
        upload.begin(len(SMALL), "text/plain", NOW)
    return upload


def watched(uploads: Uploads) -> tuple[Upload, Watched]:
    upload, lock = begun(uploads), Watched()
    upload.lock = cast(Lock, lock)
    return upload, lock


@pytest.mark.rule("BLOB-1")
def test_who_waits_for_an_upload_that_ends_meanwhile_finds_none(uploads: Uploads) -> None:
    def wait() -> bool:
        with uploads.using(NAME) as found:
            return found is None

    _, lock = watched(uploads)
    with ThreadPoolExecutor(1) as pool:
        with uploads.using(NAME) as upload:
            assert upload is not None
            waiting = pool.submit(wait)
            assert lock.is_wanted.wait(10)
            upload.close()
        assert waiting.result(10)


@pytest.mark.rule("BLOB-1")
def test_an_upload_that_ended_does_not_take_the_next_one_with_it(uploads: Uploads) -> None:
    old, _ = watched(uploads)
    with uploads.using(NAME) as found:
        assert found is old
        old.close()
    new = begun(uploads)
    assert new is not old
    uploads.forget(old)
    with uploads.using(NAME) as found:
        assert found is new


@pytest.mark.rule("BLOB-2")
@pytest.mark.parametrize("how", ["drop", "sweep"])
def test_an_upload_that_ends_by_itself_is_not_swept(uploads: Uploads, how: str) -> None:
    def clean() -> int:
        if how == "sweep":
            return uploads.sweep(TimeMs(NOW + 1))
        uploads.drop([NAME.hash])
        return 0

    _, lock = watched(uploads)
    with ThreadPoolExecutor(1) as pool:
        with uploads.using(NAME) as upload:
            assert upload is not None
            cleaning = pool.submit(clean)
            assert lock.is_wanted.wait(10)
            upload.close()
        assert cleaning.result(10) == 0


@pytest.mark.rule("BLOB-1")
@pytest.mark.parametrize("is_file", [True, False])
def test_each_uploader_has_uploads_and_a_bound_of_its_own(is_file: bool, tmp_path: Path) -> None:
    uploads = Uploads(tmp_path if is_file else None, uploads_max=5, each_max=2)
    ada, bob = (UploadKey(NAME.hash, who) for who in ("did:key:ada", "did:key:bob"))
    for key, data in ((ada, b"a"), (bob, b"bb")):
        with uploads.beginning(key) as upload:
            assert upload is not None
            upload.begin(len(SMALL), "text/plain", NOW)
            upload.append(0, data, NOW)
    for key, size in ((ada, 1), (bob, 2)):
        with uploads.using(key) as upload:
            assert upload is not None
            assert upload.held.size() == size
    with uploads.beginning(UploadKey(name_of(b"2"), "did:key:ada")):
        pass
    with pytest.raises(LimitExceeded) as refused, uploads.beginning(UploadKey(name_of(b"3"), "did:key:ada")):
        pass
    assert refused.value.facts["bound"] == "uploads_per_principal_max"
    assert {key.uploader for key in uploads.under_way()} == {"did:key:ada", "did:key:bob"}
    uploads.drop_of({"did:key:ada"})
    assert uploads.under_way() == [bob]
    uploads.drop([NAME.hash])
    assert uploads.under_way() == []
