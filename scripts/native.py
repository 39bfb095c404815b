"""Builds the compiled lane of plain commits, `stemmadb.protocol._native`, where a C compiler is at hand.

Run by `make env` for the tree itself, and by the build of a wheel. Without a compiler or the headers of Python
nothing is built, and nothing is missing but speed (docs/decisions/0011).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "protocol/stemmadb/protocol"
SOURCES = PACKAGE / "native"
STAMP = SOURCES / ".built-from"
FLAGS = ("-O2", "-fPIC", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra", "-shared")


def target() -> Path:
    return PACKAGE / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"


def built() -> Path | None:
    """The module as it is made of the sources now; None, with the reason on standard error, if it cannot be made."""
    wanted = _fingerprint()
    if target().exists() and STAMP.exists() and STAMP.read_text() == wanted:
        return target()
    _remove()
    compiler, why = _compiler()
    if compiler is None:
        print(f"The compiled lane is not built: {why}. All works without it, commits take longer.", file=sys.stderr)
        return None
    try:
        _compile(compiler)
    except (OSError, subprocess.CalledProcessError) as failure:
        print(f"The compiled lane could not be built: {failure}. All works without it.", file=sys.stderr)
        return None
    STAMP.write_text(wanted)
    return target()


def _remove() -> None:
    """What was made of other sources would hide that they have changed."""
    for old in (*PACKAGE.glob("_native.*.so"), *PACKAGE.glob("_native.*.pyd"), STAMP):
        old.unlink(missing_ok=True)


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{sys.version} {FLAGS}".encode())
    for source in sorted((*SOURCES.glob("*.c"), *SOURCES.glob("*.h"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _compiler() -> tuple[list[str] | None, str]:
    if sys.implementation.name != "cpython" or os.name != "posix":
        return None, "it is for CPython on POSIX systems"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return None, "the headers of Python are missing (Debian: apt-get install python3-dev)"
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        if command and shutil.which(shlex.split(command)[0]):
            return shlex.split(command), ""
    return None, "there is no C compiler (Debian: apt-get install gcc)"


def _compile(compiler: list[str]) -> None:
    """Moved to its place when it is whole: a process that runs may have the old one open."""
    made = target().with_suffix(".new")
    linking = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    sources = sorted(map(str, SOURCES.glob("*.c")))
    include = sysconfig.get_paths()["include"]
    subprocess.run(  # noqa: S603  # our own sources
        [*compiler, *FLAGS, *linking, f"-I{include}", "-o", str(made), *sources], check=True
    )
    made.replace(target())


class NativeLane(BuildHookInterface[Any]):
    """A wheel that has it is for one version of Python and one kind of machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if (lane := built()) is not None and version != "editable":
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"][str(lane)] = f"stemmadb/protocol/{lane.name}"


if __name__ == "__main__":
    built()
