"""Where commands come from: what is loaded for one, and what is left out since its needs are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click
import pytest

from stemmadb.client.cli import command_loader, main
from stemmadb.client.cli.command_loader import ENTRY_POINTS, points_by_command
from stemmadb.client.cli.group import HIDDEN, Commands
from stemmadb.client.cli.ways import TwoWays

IN_TWO_WAYS: Final = {"compact", "erase", "space", "spaces", "status"}
ON_A_DIRECTORY: Final = {"backup", "export", "import", "migrate", "restore", "scrub", "serve", "verify"}
AGENT_MEMORY: Final = {"mcp", "memory"}
THROUGH_A_SERVER: Final = set(points_by_command()) - IN_TWO_WAYS - ON_A_DIRECTORY - AGENT_MEMORY
SERVER_PACKAGES: Final = ("apsw", "picows", "prometheus_client", "pydantic", "uvloop")

ASK_FOR_HELP: Final = """
import io, json, sys
from contextlib import redirect_stdout, suppress
from stemmadb.client.cli import main

for missing in json.loads(sys.argv[1]):
    sys.modules[missing] = None  # as if it were not installed
said = {}
for name in sys.argv[2:]:
    with redirect_stdout(io.StringIO()) as out, suppress(SystemExit):
        main([name] if name.startswith("-") else [name, "--help"])
    said[name] = out.getvalue()
print(json.dumps([sorted(sys.modules), said]))
"""


def helped(*names: str, without: tuple[str, ...] = ()) -> tuple[set[str], dict[str, str]]:
    """What a new process has loaded after it showed the help of these commands, and what it printed for each."""
    program = [sys.executable, "-c", ASK_FOR_HELP, json.dumps(without), *names]
    done = subprocess.run(program, capture_output=True, check=True, timeout=60)  # noqa: S603
    loaded, said = json.loads(done.stdout)
    return set(loaded), said


def test_a_command_that_only_needs_the_client_loads_no_server() -> None:
    assert {"log", "get", "keys", "console", "completion"} <= THROUGH_A_SERVER
    loaded, said = helped(*sorted(THROUGH_A_SERVER))
    assert all(text.startswith(f"Usage: stemmadb {name} ") for name, text in said.items())
    assert not {name for name in loaded if f"{name}.".startswith("stemmadb.server.")}


def test_a_command_on_a_directory_loads_no_client_beside_the_command_line() -> None:
    loaded, said = helped(*sorted(ON_A_DIRECTORY))
    assert all(text.startswith(f"Usage: stemmadb {name} ") for name, text in said.items())
    beside = {name for name in loaded if f"{name}.".startswith("stemmadb.client.")} - {"stemmadb.client"}
    assert not {name for name in beside if not f"{name}.".startswith("stemmadb.client.cli.")}


def test_keys_are_shown_without_loading_what_connects() -> None:
    loaded, _ = helped("keys")
    assert "stemmadb.client.keys.ring" in loaded
    assert not {"stemmadb.client.database", "websockets", "sqlite3", "asyncio"} & loaded


def test_every_entry_point_has_the_name_of_its_command() -> None:
    found = {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
    named = {name: command for name, command in found.items() if name.partition(".")[0] not in HIDDEN}
    assert all(command.name == name.partition(".")[0] for name, command in named.items())
    assert {name for name in found if "." in name} == {f"{name}.data" for name in IN_TWO_WAYS}


def test_two_ways_of_a_command_are_one_command() -> None:
    context = click.Context(main)
    for name in THROUGH_A_SERVER | ON_A_DIRECTORY:
        assert not isinstance(main.get_command(context, name), TwoWays)
    for name in IN_TWO_WAYS - {"space"}:
        assert isinstance(main.get_command(context, name), TwoWays)
    space = main.get_command(context, "space")
    assert isinstance(space, click.Group)
    assert isinstance(space.commands["list"], TwoWays)
    assert {"create", "did", "list"} <= set(space.commands)


def test_without_the_packages_of_the_server_its_commands_are_left_out() -> None:
    kept = THROUGH_A_SERVER | IN_TWO_WAYS | AGENT_MEMORY
    _, said = helped("--help", *sorted(kept), without=SERVER_PACKAGES)
    everything = said.pop("--help")
    commands = everything.partition("Start:")[2].splitlines()
    listed = {line.split()[0] for line in commands if line.startswith("  ") and line[2:3].isalpha()}
    assert listed == kept - HIDDEN
    assert all(text.startswith(f"Usage: stemmadb {name} ") for name, text in said.items())
    assert not [name for name in IN_TWO_WAYS if "--data" in said[name]]


def found_at(*points: EntryPoint, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setattr(command_loader, "entry_points", lambda **_: points)
    return Commands(name="stemmadb")


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=ENTRY_POINTS)


def test_a_command_whose_needs_are_not_installed_is_left_out_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = found_at(point("verify", "no_such_module:verify"), monkeypatch=monkeypatch)
    with pytest.raises(SystemExit) as ended:
        commands.main(["verify"])
    assert ended.value.code == 2
    assert 'pip install -e ".[server]"' in capsys.readouterr().err
    assert "verify" not in commands.get_help(click.Context(commands))


def test_a_command_that_nobody_brings_is_no_matter_of_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = found_at(point("verify", "no_such_module:verify"), monkeypatch=monkeypatch)
    with pytest.raises(SystemExit) as ended:
        commands.main(["nonsense"])
    assert ended.value.code == 2
    assert "pip install" not in capsys.readouterr().err


@click.command("try")
def of_others() -> dict[str, object]:
    """A command that another package brings."""
    return {"tried": True}


def test_other_packages_can_bring_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "package_of_others", sys.modules[__name__])
    commands = found_at(point("try", "package_of_others:of_others"), monkeypatch=monkeypatch)
    with pytest.raises(SystemExit) as ended:
        commands.main(["try", "--json"])
    assert (ended.value.code, capsys.readouterr().out) == (0, '{"tried":true}\n')


def test_only_what_was_asked_for_is_loaded_when_a_name_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "package_of_others", sys.modules[__name__])
    broken = point("verify", "stemmadb.no_such_module:verify")
    commands = found_at(point("try", "package_of_others:of_others"), broken, monkeypatch=monkeypatch)
    context = click.Context(commands)
    assert [found.value for found in commands.shell_complete(context, "t")] == ["try"]
    assert commands.list_commands(context) == ["try", "verify"]


@pytest.mark.parametrize(
    ("name", "is_left_out"),
    [("apsw", True), ("stemmadb.server", True), ("stemmadb.server.no_such", False), (None, False)],
)
def test_only_a_package_that_is_missing_leaves_a_command_out(
    monkeypatch: pytest.MonkeyPatch, name: str | None, is_left_out: bool
) -> None:
    class Point:
        name = "verify"
        module = "stemmadb.server.commands.verify"

        def load(self) -> click.Command:
            raise ModuleNotFoundError(name=missing)

    missing = name
    monkeypatch.setattr(command_loader, "entry_points", lambda **_: [Point()])
    commands = Commands(name="stemmadb")
    if is_left_out:
        assert commands.get_command(click.Context(commands), "verify") is None
    else:
        with pytest.raises(ModuleNotFoundError):
            commands.get_command(click.Context(commands), "verify")
