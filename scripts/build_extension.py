"""Builds `stemmadb._native`, the one C extension: for the tree (`make env`, `make serve`) and for a wheel.

It is optional: without a C compiler or the headers of Python it is left out, and commits take more CPU. One line
says whether it was built. STEMMADB_NO_EXTENSION=1 leaves it out on purpose.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "native/src"
TARGET = ROOT / f"native/stemmadb/_native{sysconfig.get_config_var('EXT_SUFFIX')}"
STAMP = TARGET.with_suffix(".built-from")
SKIP = "STEMMADB_NO_EXTENSION"
FLAGS = ("-O2", "-fPIC", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra", "-shared", "-pthread")


class LeftOut(Exception):
    """Says why."""


class Built(NamedTuple):
    """The outcome, and the line that says it; no line if the extension was up to date."""

    file: Path | None
    line: str


def build() -> Built:
    """Compiles the extension unless it is up to date."""
    began = time.monotonic()
    try:
        if os.environ.get(SKIP, "") not in ("", "0"):
            raise LeftOut(f"{SKIP} is set")
        if not _is_fresh():
            _compile(_compiler())
            return Built(TARGET, f"{'extension':<18} {time.monotonic() - began:5.1f} s (built)")
    except LeftOut as reason:
        return Built(None, f"{'extension':<18} left out: {reason}")
    return Built(TARGET, "")


def _is_fresh() -> bool:
    return TARGET.exists() and STAMP.exists() and STAMP.read_text() == _fingerprint()


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{sys.version} {FLAGS}".encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _compiler() -> list[str]:
    if sys.implementation.name != "cpython" or os.name != "posix":
        raise LeftOut("it is for CPython on POSIX systems")
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        raise LeftOut("the headers of Python are missing (Debian: apt-get install python3-dev)")
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        if command and shutil.which(shlex.split(command)[0]):
            return shlex.split(command)
    raise LeftOut("there is no C compiler (Debian: apt-get install gcc)")


def _compile(compiler: list[str]) -> None:
    """Replaces the file in one step, since a running process may have the old one open."""
    _remove()  # an extension of older sources must not be used if this fails
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    made = TARGET.with_suffix(f".{os.getpid()}")
    linking = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    sources = sorted(map(str, SOURCES.glob("*.c")))
    include = sysconfig.get_paths()["include"]
    try:
        subprocess.run([*compiler, *FLAGS, *linking, f"-I{include}", "-o", str(made), *sources], check=True)  # noqa: S603
        made.replace(TARGET)
    except (OSError, subprocess.CalledProcessError) as failure:
        made.unlink(missing_ok=True)
        raise LeftOut(f"the compiler failed: {failure}") from None
    STAMP.write_text(_fingerprint())


def _remove() -> None:
    for old in (TARGET, STAMP):
        old.unlink(missing_ok=True)


class Extension(BuildHookInterface[Any]):
    """Puts the extension into a wheel, which is then for one version of Python and one platform; and the console."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(ROOT))
        from scripts import build_console  # noqa: PLC0415  # a build loads this file alone, without its folder

        build_console.include(build_data, place=build_console.IN_WHEEL, is_editable=version == "editable")
        file, line = build()
        print(line or f"{'extension':<18} up to date", file=sys.stderr)
        if file is not None and version != "editable":
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"][str(file)] = f"stemmadb/{file.name}"


def main() -> None:
    """For the tree: what is left out is not there either."""
    file, line = build()
    if file is None:
        _remove()
    if line:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
