"""What is compiled is optional: where it cannot be built nothing fails, and what is stale is not used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "protocol/stemmadb/protocol"
PACKAGES = (PACKAGE, "server/stemmadb/server")


def built(tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Builds in a copy of what it takes."""
    (tree / "scripts").mkdir(exist_ok=True)
    shutil.copy(ROOT / "scripts/native.py", tree / "scripts/native.py")
    for package in PACKAGES:
        shutil.copytree(ROOT / package / "native", tree / package / "native", dirs_exist_ok=True)
        (tree / package / "native/.built-from").unlink(missing_ok=True)
    return subprocess.run(  # noqa: S603
        [sys.executable, str(tree / "scripts/native.py")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_a_compiler_that_fails_costs_what_is_compiled_and_nothing_else(tmp_path: Path, package: str) -> None:
    stale = tmp_path / package / "_native.stale.so"
    stale.parent.mkdir(parents=True)
    stale.touch()
    ran = built(tmp_path, CC="false")
    assert ran.returncode == 0
    assert "could not be built" in ran.stderr or "is not built" in ran.stderr
    assert not list((tmp_path / package).glob("_native.*")), "neither half of a new one nor an old one"


def test_without_the_lane_everything_is_imported_and_says_so() -> None:
    asked = (
        "from stemmadb.protocol.model.compiled import lane_name; import stemmadb.server.opening; print(lane_name())"
    )
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-X", "no-native", "-c", asked], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "python"


def test_a_lane_that_is_there_is_used() -> None:
    is_there = bool(list((ROOT / PACKAGE).glob("_native.*.so")))
    asked = "from stemmadb.protocol.model.compiled import lane_name; print(lane_name())"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout.strip() == ("compiled" if is_there else "python")
