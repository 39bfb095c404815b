"""The list of deliberate bugs still fits the tree: each applies exactly once, and its tests are there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.mutating import running
from scripts.mutating.mutations import ROOT, Clock, DoesNotApply, Mutation, applied, broken, load

LEAST = 40
MUTATIONS = load()


def test_there_are_enough_of_them_and_no_name_is_used_twice() -> None:
    names = [one.name for one in MUTATIONS]
    assert len(names) >= LEAST
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_a_mutation_applies_exactly_once_and_leaves_code_that_can_be_read(mutation: Mutation) -> None:
    assert mutation.old != mutation.new
    ast.parse(broken(mutation, ROOT))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_the_tests_that_have_to_notice_are_there(mutation: Mutation) -> None:
    assert mutation.tests
    for test in mutation.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).exists(), test
        name = function.partition("[")[0].rpartition("::")[2]
        assert not name or f"def {name}(" in (ROOT / file).read_text(), test


def test_a_broken_tree_is_mended_and_what_does_not_apply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    once = Mutation("x is two", "a.py", "x = 1", "x = 2", ("test",))
    with applied(once, tmp_path, Clock()):
        assert (tmp_path / "a.py").read_text() == "x = 2\ny = 1\n"
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 1\n"
    for old in ("= 1", "z = 1"):
        with pytest.raises(DoesNotApply):
            broken(Mutation("it is not there once", "a.py", old, "", ("test",)), tmp_path)


def test_the_copy_that_is_broken_goes_without_the_extension_which_would_hide_the_bug(tmp_path: Path) -> None:
    running.copy_tree(tmp_path)
    code = "from stemmadb.protocol.model.commit import native; print(native.fast_path_name(), native.__file__)"
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], env=running._environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["python", str(tmp_path / "protocol/stemmadb/protocol/model/commit/native.py")]
