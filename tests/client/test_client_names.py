"""The names of `stemmadb.client`, which are loaded when they are asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import stemmadb.client

LOADED_BY_ONE_NAME = """
import sys
import stemmadb.client
assert "stemmadb.client.database" not in sys.modules
from stemmadb.client import StemmaError
assert "stemmadb.protocol.errors" in sys.modules and "stemmadb.client.database" not in sys.modules
from stemmadb.client import connect
assert "stemmadb.client.database" in sys.modules
"""


def typed_names() -> dict[str, str]:
    """What a type checker sees: each name and the module it is from."""
    tree = ast.parse(Path(str(stemmadb.client.__file__)).read_text())
    branch = next(part for part in tree.body if isinstance(part, ast.If))
    imports = [part for part in branch.body if isinstance(part, ast.ImportFrom)]
    return {name.name: str(part.module) for part in imports for name in part.names}


def test_python_finds_what_a_type_checker_sees() -> None:
    assert sorted(typed_names()) == sorted(stemmadb.client.__all__)
    for name, module in typed_names().items():
        assert getattr(stemmadb.client, name) is getattr(import_module(module), name)
    assert set(stemmadb.client.__all__) <= set(dir(stemmadb.client))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'stemmadb\.client' has no attribute 'nonsense'"):
        getattr(stemmadb.client, "nonsense")  # noqa: B009 - a type checker refuses it
    with pytest.raises(ImportError, match="nonsense"):
        exec("from stemmadb.client import nonsense")  # noqa: S102


def test_a_name_loads_no_more_than_it_needs() -> None:
    subprocess.run([sys.executable, "-c", LOADED_BY_ONE_NAME], check=True, timeout=60)  # noqa: S603
