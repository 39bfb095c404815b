"""The extension is optional: where it cannot be built nothing fails, a stale one is not used, a wheel contains it."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from source_trees import IN_A_WHEEL, ROOT, copied, installed, ran

NATIVE = "native/stemmadb"
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not Path(sysconfig.get_paths()["include"], "Python.h").exists(),
    reason="there is no C compiler here, or the headers of Python are missing",
)
WHICH = """
import stemmadb.server.open_store
from stemmadb.protocol.model.commit.native import fast_path_name
print(fast_path_name())
"""


def built(tree: Path, **environment: str) -> str:
    """The line that building for the tree prints."""
    return ran(sys.executable, tree / "scripts/build_extension.py", **environment).stderr


def left(tree: Path) -> list[str]:
    return sorted(file.name for file in (tree / NATIVE).iterdir())


def test_a_compiler_that_fails_costs_the_extension_and_nothing_else(tmp_path: Path) -> None:
    tree = copied(tmp_path / "tree")
    (tree / NATIVE / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}").touch()
    assert built(tree, CC="false").startswith("extension          left out: ")
    assert left(tree) == ["_native.pyi"], "neither half of a new one nor an old one"


@needs_compiler
def test_it_is_built_once_and_again_when_a_source_has_changed(tmp_path: Path) -> None:
    tree = copied(tmp_path / "tree")
    assert built(tree).rstrip().endswith("s (built)")
    assert built(tree) == ""
    with (tree / "native/src/module.c").open("a") as source:
        source.write("/* changed */\n")
    assert built(tree).rstrip().endswith("s (built)")
    assert built(tree, STEMMADB_NO_EXTENSION="1") == "extension          left out: STEMMADB_NO_EXTENSION is set\n"
    assert left(tree) == ["_native.pyi"]


def wheel(tmp_path: Path, **environment: str) -> tuple[Path, str]:
    """A wheel of the tree, and what its build printed."""
    tree = copied(tmp_path / "tree", *IN_A_WHEEL)
    (tree / "build/console").mkdir(parents=True)
    for page in ("index.html", "pair.html"):
        (tree / "build/console" / page).touch()
    code = (
        f"import os; os.chdir({str(tree)!r}); from hatchling.build import build_wheel; build_wheel({str(tmp_path)!r})"
    )
    printed = ran(sys.executable, "-c", code, **environment).stderr
    (made,) = tmp_path.glob("*.whl")
    return made, printed


@needs_compiler
def test_a_wheel_built_with_a_compiler_has_the_extension_and_uses_it(tmp_path: Path) -> None:
    made, printed = wheel(tmp_path)
    assert "s (built)" in printed
    assert "none-any" not in made.name
    native = [name for name in zipfile.ZipFile(made).namelist() if "_native" in name]
    assert native == [f"stemmadb/_native{sysconfig.get_config_var('EXT_SUFFIX')}"]
    python = installed(made, tmp_path)
    assert ran(python, "-c", WHICH).stdout == "native\n"
    where = ran(python, "-c", "from stemmadb import _native; print(_native.__file__, _native.WalWriter)").stdout
    assert where.startswith(str(tmp_path / "venv"))


def test_a_wheel_built_without_it_says_so_and_works(tmp_path: Path) -> None:
    made, printed = wheel(tmp_path, STEMMADB_NO_EXTENSION="1")
    assert "extension          left out: STEMMADB_NO_EXTENSION is set" in printed
    assert made.name.endswith("py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(made).namelist() if "_native" in name]
    assert ran(installed(made, tmp_path), "-c", WHICH).stdout == "python\n"


def test_without_the_extension_everything_is_imported_and_says_so() -> None:
    assert ran(sys.executable, "-X", "no-native", "-c", WHICH).stdout == "python\n"


def test_an_extension_that_is_there_is_used() -> None:
    is_there = (ROOT / NATIVE / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}").exists()
    assert ran(sys.executable, "-c", WHICH).stdout == ("native\n" if is_there else "python\n")
