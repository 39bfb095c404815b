"""Copies of the source tree, what is released from them, and environments that have nothing but a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
IN_A_WHEEL = ("pyproject.toml", "README.md", "LICENSE", "protocol", "server", "client")


def copied(tree: Path, *more: str) -> Path:
    """A copy of the sources of the extension, with nothing built, and of more of the tree."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.built-from")
    shutil.copytree(ROOT / "native", tree / "native", ignore=ignored)
    (tree / "scripts").mkdir()
    for script in ("build_extension.py", "build_console.py"):
        shutil.copy(ROOT / "scripts" / script, tree / "scripts")
    for name in more:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    return tree


def ran(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    alone = {name: value for name, value in os.environ.items() if name not in ("STEMMADB_NO_EXTENSION", "PYTHONPATH")}
    return subprocess.run(  # noqa: S603
        [str(part) for part in command], env=alone | environment, capture_output=True, text=True, check=True
    )


def installed(made: Path, tmp_path: Path) -> Path:
    """The Python of an environment that has this wheel, and the packages of others but not our tree."""
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(packages)
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])  # its own .pth files are not followed
    return tmp_path / "venv/bin/python"
