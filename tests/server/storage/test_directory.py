"""Holding a data directory: one process at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stemmadb.protocol.errors import DirectoryHeld
from stemmadb.server.storage import directory
from stemmadb.server.storage.directory import hold, is_held

HOLD = """
import sys
from pathlib import Path
from stemmadb.server.storage.directory import hold
held = hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with hold(tmp_path / "new" / "data") as held:
        assert held.directory.stat().st_mode & 0o777 == 0o700
        assert (held.directory / "lock").stat().st_mode & 0o777 == 0o600
        assert (held.directory / "lock").read_text() == f"{os.getpid()}\n"


@pytest.mark.rule("STORE-4")
def test_a_second_hold_is_refused_and_says_who_has_it(tmp_path: Path) -> None:
    with hold(tmp_path):
        with pytest.raises(DirectoryHeld) as caught:
            hold(tmp_path)
        assert caught.value.facts == {"directory": str(tmp_path), "holder": f"process {os.getpid()}"}
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def test_a_directory_is_free_once_it_is_let_go_even_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(tmp_path):
        raise ZeroDivisionError
    held = hold(tmp_path)
    held.close()
    held.close()
    hold(tmp_path).close()


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("STORE-4")
def test_another_process_is_kept_out_and_killing_it_frees_the_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # noqa: S603
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryHeld, match=f"process {other.pid}"):
            hold(tmp_path)
        assert is_held(tmp_path)
        other.kill()
        other.wait()
    assert not is_held(tmp_path)
    with hold(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_longer_number_of_an_earlier_holder_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("99999999999999\n")
    with hold(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_holder_that_has_not_said_who_it_is_is_another_process(tmp_path: Path) -> None:
    with hold(tmp_path):
        (tmp_path / "lock").write_text("")
        with pytest.raises(DirectoryHeld, match="another process"):
            hold(tmp_path)


def test_one_who_only_looks_is_waited_for_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(tmp_path).close()
    looking = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    with pytest.raises(DirectoryHeld):
        hold(tmp_path)
    attempts = 0
    really = directory._try

    def ends_looking(descriptor: int, kind: int) -> bool:
        nonlocal attempts
        attempts += 1
        if attempts == 2:
            fcntl.flock(looking, fcntl.LOCK_UN)
        return really(descriptor, kind)

    monkeypatch.setattr(directory, "_try", ends_looking)
    hold(tmp_path).close()
    assert attempts == 3
    os.close(looking)
