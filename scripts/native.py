"""Builds what is compiled where a C compiler is at hand.

That is the lane of plain commits, `stemmadb.protocol._native` (docs/decisions/0011), the thread that carries pages
of the daybook to the disk, `stemmadb.server._native` (0012), and, where mypyc is there too, the modules that every
commit goes through (0013).

Run by `make env` for the tree itself, and by the build of a wheel. Without a compiler or the headers of Python
nothing is built, and nothing is missing but speed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
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
PACKAGES = (ROOT / "protocol/stemmadb/protocol", ROOT / "server/stemmadb/server")
FLAGS = ("-O2", "-fPIC", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra", "-shared", "-pthread")


def built() -> list[Path]:
    """The modules as they are made of the sources now; those that cannot be made are missing, and it is said why."""
    found = (_built(package) for package in PACKAGES if (package / "native").is_dir())
    return [*(module for module in found if module is not None), *_hot_modules()]


def _built(package: Path) -> Path | None:
    wanted, target = _fingerprint(package), _target(package)
    if target.exists() and _says(_stamp(package), wanted):
        return target
    _remove(package)
    compiler, why = _compiler()
    if compiler is None:
        _say(package, f"is not built: {why}")
        return None
    try:
        _compile(compiler, package)
    except (OSError, subprocess.CalledProcessError) as failure:
        _say(package, f"could not be built: {failure}")
        return None
    _stamp(package).write_text(wanted)
    return target


def _hot_modules() -> list[Path]:
    """Those of `hot_modules.py`, which are written anew if any source has changed."""
    server, script = PACKAGES[1], ROOT / "scripts/hot_modules.py"
    if not (server / "compiled.py").exists() or not script.exists():
        return []
    compiled = _loaded(server / "compiled.py")
    directory = server / "_compiled"
    stamps = {compiled.MADE_FROM: compiled.fingerprint(PACKAGES), "made-by": _maker(script)}
    if not all(_says(directory / name, made) for name, made in stamps.items()):
        shutil.rmtree(directory, ignore_errors=True)
        if not _compile_hot(script, directory):
            return []
        for name, made in stamps.items():
            (directory / name).write_text(made)
    return sorted(directory.iterdir())


def _says(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text() == wanted


def _maker(script: Path) -> str:
    """What decides how they are compiled, beside the sources."""
    parts = [script.read_bytes(), (ROOT / "pyproject.toml").read_bytes()]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        parts.append(importlib.metadata.version("mypy").encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _compile_hot(script: Path, directory: Path) -> bool:
    compiler, why = _compiler()
    if compiler is not None and not all(map(importlib.util.find_spec, ("mypyc", "setuptools"))):
        compiler, why = None, "mypyc is missing (pip install mypy setuptools)"
    if compiler is None:
        _say(PACKAGES[1], f"is not built: {why}")
        return False
    directory.mkdir()
    command = [sys.executable, str(script), str(directory), shlex.join(compiler)]
    ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603
    if ran.returncode:
        shutil.rmtree(directory)
        _say(PACKAGES[1], f"could not be built: {ran.stdout.strip()[-500:]}")
    return ran.returncode == 0


def _loaded(file: Path) -> Any:
    """A module by its file: what it belongs to may not be installed yet."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(package: Path, what: str) -> None:
    print(
        f"The compiled part of {_dotted(package)} {what}. All works without it, commits take longer.", file=sys.stderr
    )


def _dotted(package: Path) -> str:
    return ".".join(package.parts[-2:])


def _target(package: Path) -> Path:
    return package / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"


def _stamp(package: Path) -> Path:
    return package / "native/.built-from"


def _remove(package: Path) -> None:
    """What was made of other sources would hide that they have changed."""
    for old in (*package.glob("_native.*.so"), *package.glob("_native.*.pyd"), _stamp(package)):
        old.unlink(missing_ok=True)


def _fingerprint(package: Path) -> str:
    digest = hashlib.sha256(f"{sys.version} {FLAGS}".encode())
    for source in sorted((*package.glob("native/*.c"), *package.glob("native/*.h"))):
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


def _compile(compiler: list[str], package: Path) -> None:
    """Moved to its place when it is whole: a process that runs may have the old one open."""
    made = _target(package).with_suffix(".new")
    linking = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    sources = sorted(map(str, package.glob("native/*.c")))
    include = sysconfig.get_paths()["include"]
    subprocess.run(  # noqa: S603  # our own sources
        [*compiler, *FLAGS, *linking, f"-I{include}", "-o", str(made), *sources], check=True
    )
    made.replace(_target(package))


class NativeLane(BuildHookInterface[Any]):
    """A wheel that has it is for one version of Python and one kind of machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for module in built():
            if version != "editable":
                build_data["pure_python"] = False
                build_data["infer_tag"] = True
                within = next(package for package in PACKAGES if module.is_relative_to(package)).parent.parent
                build_data["force_include"][str(module)] = str(module.relative_to(within))


if __name__ == "__main__":
    built()
