"""The modules that are compiled: used by who asks for them, if they are of the sources that are there."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stemmadb.server import compiled
from stemmadb.server.engine import writer

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "scripts/hot_modules.py"
ASKED = """
from stemmadb.server import compiled
print(compiled.use(), compiled.is_used(), compiled.use())
from stemmadb.server.engine import writer
print(Path(writer.__file__).suffix)
"""


def sources() -> list[Path]:
    """Of what is compiled."""
    pytest.importorskip("mypyc")
    spec = importlib.util.spec_from_file_location("hot_modules", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [ROOT / source for source in module.sources()]


def asked(*options: str, before: str = "") -> list[str]:
    """What a process says that asks for them."""
    code = f"from pathlib import Path\n{before}\n{ASKED}"
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603


def is_built() -> bool:
    return (compiled.DIRECTORY / compiled.MADE_FROM).exists() and compiled._is_fresh()


def test_who_asks_before_they_are_imported_gets_them() -> None:
    assert asked() == (["True", "True", "True", ".so"] if is_built() else ["False", "False", "False", ".py"])


def test_who_wants_nothing_compiled_gets_nothing() -> None:
    assert asked("-X", "no-native") == ["False", "False", "False", ".py"]


def test_who_has_imported_one_goes_on_with_python() -> None:
    assert asked(before="import stemmadb.server.counting") == ["False", "False", "False", ".py"]
    if not compiled.is_used():
        assert writer.__file__.endswith(".py")
        assert not compiled.use()


def test_what_was_made_of_other_sources_is_not_used() -> None:
    changed = "from stemmadb.server import compiled\ncompiled.fingerprint = lambda _: 'another'"
    assert asked(before=changed) == ["False", "False", "False", ".py"]


def test_any_change_of_any_source_is_another_fingerprint(tmp_path: Path) -> None:
    """Compiled modules hold constants of those that are not."""
    (tmp_path / "part").mkdir()
    files = [tmp_path / "one.py", tmp_path / "part/two.py"]
    seen = {compiled.fingerprint([tmp_path])}
    for file in files:
        for text in ("A = 1", "A = 2"):
            file.write_text(text)
            seen.add(compiled.fingerprint([tmp_path]))
    files[0].rename(tmp_path / "three.py")
    seen.add(compiled.fingerprint([tmp_path]))
    assert len(seen) == 6


def test_none_of_them_has_records_whose_options_would_be_dropped() -> None:
    for source in sources():
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ClassDef):
                assert not any("Struct" in ast.unparse(base) for base in node.bases), f"{source.name}: {node.name}"


def test_none_of_them_keeps_an_answer_in_the_dictionary_that_its_objects_do_not_have() -> None:
    for source in sources():
        assert "cached_property" not in source.read_text(), source.name


def test_files_that_cannot_be_loaded_are_not_used(tmp_path: Path) -> None:
    if not is_built():
        pytest.skip("there are none")
    shutil.copytree(compiled.DIRECTORY, tmp_path / "made")
    (group,) = (tmp_path / "made").glob(f"{compiled.GROUP}*")
    group.write_bytes(b"no library")
    elsewhere = f"from stemmadb.server import compiled\ncompiled.DIRECTORY = Path({str(tmp_path / 'made')!r})"
    assert asked(before=elsewhere) == ["False", "False", "False", ".py"]


def test_none_of_them_makes_a_list_of_one_that_others_may_lengthen_meanwhile() -> None:
    """The list is made as long as the other is at first, and what comes later is written behind its end."""
    for source in sources():
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ListComp) and not node.generators[0].ifs:
                assert not ast.unparse(node.generators[0].iter).startswith("self."), f"{source.name}:{node.lineno}"
