"""Server processes of peers: installed by package name, started, awaited, stopped."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 30.0
INSTALL_SECONDS = 600.0
_PAUSE_SECONDS = 0.05
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
"""Debian keeps some servers where only root looks."""


class NotInstalled(Exception):
    """A peer is not here and could not be brought here."""


def find(program: str) -> str | None:
    return shutil.which(program, path=_PATH)


def require(program: str, package: str) -> str:
    """Where the program is, or an error that says which package has it."""
    found = find(program)
    if found is None:
        raise NotInstalled(by_hand(package))
    return found


def by_hand(*packages: str) -> str:
    return f"run: apt-get install {' '.join(packages)}"


class Failed(Exception):
    """A command did not end well; its words are the message."""


def install_debian(*packages: str) -> None:
    command = ["apt-get", "install", "--yes", "-qq", "--no-install-recommends", *packages]
    with installing(by_hand(*packages)):
        quietly(command, env={"DEBIAN_FRONTEND": "noninteractive"})


@contextmanager
def installing(advice: str) -> Iterator[None]:
    try:
        yield
    except Failed as error:
        raise NotInstalled(f"{advice}\n{error}") from error


def quietly(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, user: str | None = None
) -> None:
    """Runs to the end without a word, unless it fails."""
    try:
        subprocess.run(  # noqa: S603
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            env=os.environ | (env or {}),
            user=user,
            group=user,
            extra_groups=None if user is None else (),
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise Failed(f"{command[0]}: {said}") from error


def version_of(program: str) -> str:
    """The first number with dots that the program says of itself."""
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)  # noqa: S603
    found = re.search(r"\d+(\.\d+)+", said.stdout)
    return found[0] if found else said.stdout.strip()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str],
    ready: Callable[[], None],
    *,
    directory: Path,
    user: str | None = None,
    stop: signal.Signals = signal.SIGTERM,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A server in its directory, from the time on at which `ready` passes; stopped and waited for at the end."""
    log = directory / f"{Path(command[0]).name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
            cwd=directory,
            env=os.environ | (env or {}),
        )
    try:
        _await(process, ready, log)
        yield process
    finally:
        _end(process, stop)


def _await(process: subprocess.Popen[bytes], ready: Callable[[], None], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            ready()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{log.stem} did not start: {log.read_text(errors='replace')[-2_000:]}") from error
            time.sleep(_PAUSE_SECONDS)


def _end(process: subprocess.Popen[bytes], stop: signal.Signals) -> None:
    process.send_signal(stop)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
