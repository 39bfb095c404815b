"""A release has the web console in it, and none can be built without; a wheel serves it where there is no node."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from source_trees import IN_A_WHEEL, copied, installed, ran

BUILD = "import os; os.chdir({!r}); from hatchling.build import {} as build; build({!r})"
OPEN = """
import asyncio, sys, urllib.request
sys.path.insert(0, {support!r})
from pathlib import Path
from served import config_of, served

async def main():
    async with served(config_of(Path({data!r}))) as url:
        address = url.replace("ws:", "http:") + "/console"
        answer = await asyncio.to_thread(urllib.request.urlopen, address)
        print(answer.status, answer.headers["Content-Security-Policy"][:19], answer.read().decode())

asyncio.run(main())
"""


def tree_of(tmp_path: Path, *, has_console: bool) -> Path:
    tree = copied(tmp_path / "tree", *IN_A_WHEEL, "memory")
    if has_console:
        (tree / "build/console/assets").mkdir(parents=True)
        (tree / "build/console/assets/main-A.js").write_text("1")
        for page in ("index", "pair"):
            (tree / f"build/console/{page}.html").write_text(f"<p>the {page} page")
    return tree


def released(tree: Path, to: Path, what: str) -> Path:
    ran(sys.executable, "-c", BUILD.format(str(tree), f"build_{what}", str(to)), STEMMADB_NO_EXTENSION="1")
    (made,) = to.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return made


@pytest.mark.rule("CONSOLE-4")
@pytest.mark.parametrize("what", ["wheel", "sdist"])
def test_no_release_is_built_without_the_console(tmp_path: Path, what: str) -> None:
    tree = tree_of(tmp_path, has_console=False)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        released(tree, tmp_path, what)
    assert "The console was not built: run make console" in failed.value.stderr


@pytest.mark.rule("CONSOLE-4")
def test_a_wheel_serves_the_console_in_an_environment_without_node(tmp_path: Path) -> None:
    made = released(tree_of(tmp_path, has_console=True), tmp_path, "wheel")
    names = [name for name in zipfile.ZipFile(made).namelist() if "console_files/" in name]
    assert len(names) == 3
    python = installed(made, tmp_path)
    code = OPEN.format(support=str(Path(__file__).parents[1] / "support"), data=str(tmp_path / "data"))
    assert ran(python, "-c", code, PATH="/nonexistent").stdout == "200 default-src 'none'; <p>the index page\n"


@pytest.mark.rule("CONSOLE-4")
def test_an_sdist_has_it_too_so_that_a_wheel_can_be_built_from_it(tmp_path: Path) -> None:
    made = released(tree_of(tmp_path, has_console=True), tmp_path, "sdist")
    with tarfile.open(made) as archive:
        assert [name for name in archive.getnames() if name.endswith("build/console/pair.html")]
