"""The machine and the versions that a run was made on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import apsw

from benchmarks.load.processes import SLICE_US

PACKAGES = ("apsw", "blake3", "cryptography", "msgspec", "picows", "pydantic", "uvloop", "websockets")


def described(versions: dict[str, str]) -> dict[str, object]:
    """What a reader needs to compare figures with those of another machine."""
    return {
        "cores": os.cpu_count(),
        "cpu": _field(Path("/proc/cpuinfo"), "model name"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "slice_us": SLICE_US,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("stemmadb", *PACKAGES)},
        "systems": versions | {"sqlite": apsw.sqlite_lib_version()},
    }


def _field(path: Path, name: str) -> str:
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), platform.processor())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
