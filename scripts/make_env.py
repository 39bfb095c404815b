"""Makes .venv: `make_env.py server` with what the server needs, `make_env.py dev` with the development packages too.

Packages come from the locks in requirements/ (pins and hashes), ours is installed in editable mode, and the
extension is built where there is a C compiler. Nothing is removed. Each step prints a line with its seconds; a step
that has nothing to do is skipped. It needs a python3 and nothing else; PYTHON=/path/to/python3 says which one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin/python"
LOCKS = {"server": ROOT / "requirements/server.txt", "dev": ROOT / "requirements/dev.txt"}
LEAST = (3, 11)
UNUSABLE = 3
"""The exit code of commands that cannot start."""


def main(kind: str) -> None:
    _make_venv()
    if kind == "dev" or not _is_stamped("dev packages", LOCKS["dev"]):  # the development lock has all of the server's
        _install_packages(kind)
    _build_extension()
    _install_ours()


def _make_venv() -> None:
    if _is_usable():
        return
    if sys.version_info < LEAST:
        found = ".".join(map(str, sys.version_info[:3]))
        _fail(f"StemmaDB needs Python 3.11 or newer; {sys.executable} is {found}. Set PYTHON=/path/to/python3.")
    python = getattr(sys, "_base_executable", sys.executable)  # .venv may be active, and is about to be replaced
    with _step("environment"):
        if not _has_ensurepip(python):
            _install_system_package("python3-venv", f"{python} cannot make a virtual environment without it")
        _run(python, "-m", "venv", "--clear", str(VENV))


def _is_usable() -> bool:
    """Whether .venv is there, runs, and is of the PYTHON that was asked for, if one was."""
    command = [str(PYTHON), "-c", "import pip, sys; print(sys._base_executable)"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return False
    if ran.returncode or not os.environ.get("PYTHON"):
        return ran.returncode == 0
    wanted = getattr(sys, "_base_executable", sys.executable)
    return os.path.realpath(ran.stdout.strip()) == os.path.realpath(wanted)


def _has_ensurepip(python: str) -> bool:
    return subprocess.run([python, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0  # noqa: S603


def _install_system_package(package: str, why: str) -> None:
    """Only root installs one, and only after saying which and why."""
    if shutil.which("apt-get") is None:
        _fail(f"The system package {package} is missing: {why}. Install it and try again.")
    if os.geteuid() != 0:
        _fail(f"The system package {package} is missing: {why}. Install it: sudo apt-get install {package}")
    _say(f"The system package {package} is missing: {why}. Installing it: apt-get install {package}")
    _run("apt-get", "update", "-qq")
    _run("apt-get", "install", "-y", "-qq", package)


def _install_packages(kind: str) -> None:
    lock, name = LOCKS[kind], f"{kind} packages"
    if _is_stamped(name, lock):
        return
    with _step(name):
        _pip("--no-compile", "--require-hashes", "--only-binary", ":all:", "-r", str(lock))
        _compile_all()
    _stamp(name, lock)


def _compile_all() -> None:
    """On all cores, where pip uses one. A file that is no Python of this version is left as it is."""
    command = [str(PYTHON), "-m", "compileall", "-q", "-j", "0", str(VENV / "lib")]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # noqa: S603


def _build_extension() -> None:
    _run(str(PYTHON), "scripts/build_extension.py")  # prints its own line


def _install_ours() -> None:
    """Again when pyproject.toml has changed: it names the commands and the source roots."""
    project = ROOT / "pyproject.toml"
    if not _is_stamped("stemmadb", project):
        with _step("stemmadb"):
            _pip("--no-build-isolation", "-e", ".")
        _stamp("stemmadb", project)


def _is_stamped(name: str, made_from: Path) -> bool:
    stamp = _stamp_file(name)
    return stamp.exists() and stamp.read_text() == _digest(made_from)


def _stamp(name: str, made_from: Path) -> None:
    _stamp_file(name).write_text(_digest(made_from))


def _stamp_file(name: str) -> Path:
    return VENV / f".{name.replace(' ', '-')}-from"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _pip(*arguments: str) -> None:
    common = ("-qq", "--no-input", "--no-deps", "--disable-pip-version-check")
    _run(str(PYTHON), "-m", "pip", "install", *common, *arguments)


@contextmanager
def _step(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    _say(f"{name:<18} {time.monotonic() - began:5.1f} s")


def _run(*command: str) -> None:
    ran = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603
    if ran.returncode:
        _fail(f"This has failed, see above: {' '.join(command)}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _fail(line: str) -> None:
    _say(line)
    sys.exit(UNUSABLE)


if __name__ == "__main__":
    main(sys.argv[1])
