"""`scripts/make_env.py` and `scripts/run_parts.py`: what they say, and what they do not do unasked."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"
WHY = "it cannot make an environment without it"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Machine:
    """`make_env` in a directory of its own, with every command noted and none run."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module, self.ran = loaded("make_env"), list[tuple[str, ...]]()
        (directory / ".venv").mkdir()
        for name in ("server", "dev"):
            (directory / f"{name}.txt").write_text(name)
        (directory / "pyproject.toml").write_text("")
        locks = {name: directory / f"{name}.txt" for name in ("server", "dev")}
        changed = {"ROOT": directory, "VENV": directory / ".venv", "PYTHON": Path(sys.executable), "LOCKS": locks}
        for name, value in {**changed, "_run": self._run, "_compile_all": lambda: None}.items():
            monkeypatch.setattr(self.module, name, value)
        monkeypatch.delenv("PYTHON", raising=False)

    def _run(self, *command: str) -> None:
        self.ran.append(command)

    def steps(self, kind: str) -> list[str]:
        """The last word of every command that it takes."""
        self.ran.clear()
        self.module.main(kind)
        return [command[-1].rsplit("/", 1)[-1] for command in self.ran]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_server_gets_its_own_packages_and_development_adds_to_them(machine: Machine) -> None:
    assert machine.steps("server") == ["server.txt", "build_extension.py", "."]
    assert machine.steps("server") == ["build_extension.py"], "which looks for itself whether it is up to date"
    assert machine.steps("dev") == ["dev.txt", "build_extension.py"]
    assert machine.steps("server") == machine.steps("dev") == ["build_extension.py"], "neither removes"


def test_only_what_has_changed_is_done_again(machine: Machine, tmp_path: Path) -> None:
    machine.steps("dev")
    (tmp_path / "pyproject.toml").write_text("[project]")
    assert machine.steps("dev") == ["build_extension.py", "."]
    (tmp_path / "dev.txt").write_text("another")
    assert machine.steps("dev") == ["dev.txt", "build_extension.py"]


def test_each_step_prints_its_seconds_and_none_prints_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.steps("server")
    lines = capsys.readouterr().err.splitlines()
    assert [line[:18].rstrip() for line in lines] == ["server packages", "stemmadb"]
    assert all(line.endswith(" s") for line in lines)
    machine.steps("server")
    assert capsys.readouterr() == ("", "")


def test_a_system_package_is_named_and_left_to_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine.module.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(machine.module.os, "geteuid", lambda: 1_000)
    with pytest.raises(SystemExit) as ended:
        machine.module._install_system_package("python3-venv", WHY)
    assert (ended.value.code, machine.ran) == (3, [])
    said = capsys.readouterr().err
    assert (
        said == f"The system package python3-venv is missing: {WHY}. Install it: sudo apt-get install python3-venv\n"
    )


def test_root_installs_a_system_package_after_it_was_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine.module.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(machine.module.os, "geteuid", lambda: 0)
    machine.module._install_system_package("python3-venv", WHY)
    assert capsys.readouterr().err.startswith(f"The system package python3-venv is missing: {WHY}. Installing it: ")
    assert machine.ran[-1] == ("apt-get", "install", "-y", "-qq", "python3-venv")


@pytest.mark.parametrize(("failing", "code", "lines"), [(None, 0, ["s", "s"]), ("checks", 2, ["FAILED", "run"])])
def test_the_parts_of_make_test_end_at_the_first_that_fails(
    failing: str | None,
    code: int,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = loaded("run_parts")
    monkeypatch.setattr(parts, "PARTS", (("environment and types", "checks"), ("core", "tests")))
    monkeypatch.setattr(parts, "_make", lambda target: 2 if target == failing else 0)
    assert parts.main() == code
    assert [line.split()[-1] for line in capsys.readouterr().out.split("\n") if line] == lines
