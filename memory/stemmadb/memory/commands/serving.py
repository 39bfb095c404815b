"""`stemmadb memory serve`, and the options of `stemmadb serve --memory`."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stemmadb.memory.commands.asking import data_option, directory
from stemmadb.memory.commands.project_namespace import project_namespace
from stemmadb.memory.process import places
from stemmadb.memory.process.places import make_private

if TYPE_CHECKING:  # a memory server takes a while to import, and other commands do not need it
    from stemmadb.memory.process.division import MemoryBeside
    from stemmadb.memory.process.http_listener import ListenAddress
    from stemmadb.memory.process.memory_server import MemoryOptions

_SHIFT: Final = re.compile(r"([+-]?\d+)(ms|s|m|h|d)")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@click.command()
@data_option
@click.option("--http", "http", multiple=True, metavar="ADDR", help="Serve the plugin API: HOST:PORT or unix:/PATH.")
@click.option("--mcp", "mcp", multiple=True, metavar="ADDR", help="Serve MCP over HTTP: HOST:PORT or unix:/PATH.")
@click.option("--ns", help="The namespace of --mcp; default: that of the project in this directory.")
@click.option("--origins", "origins", multiple=True, metavar="ORIGIN", help="A web page that may use --mcp.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="The WebSocket port; default: a free one.")
@click.option("--allow-host", "hosts", multiple=True, metavar="HOST:PORT", help="A further Host to answer to.")
@click.option("--unsafe-bind", is_flag=True, help="Allow addresses that are not loopback; nothing is authenticated.")
@click.option("--require-secret", is_flag=True, help="Commands need a secret for reading too.")
@click.option(
    "--cooldown", type=click.FloatRange(min=0), metavar="SECONDS", help="Between two writes of a secret; default: 2."
)
@click.option("--min-evidence", type=click.IntRange(0), default=0, help="Evidence that a proposal needs.")
@click.option("--idle", type=float, metavar="SECONDS", help="Stop after so long without a client.")
@click.option("--test-clock", metavar="+3500s", help="Shift the clock of memory, for tests.")
@click.option("--test-ids", metavar="WORD", help="Make ids by counting, the same each time, for tests.")
@click.pass_obj
def serve(shell: Any, /, data: Path | None, port: int, **options: Any) -> None:
    """Start a memory server. It runs until Ctrl-C or SIGTERM.

    Example: stemmadb memory serve --http 127.0.0.1:9100
    """
    from stemmadb.server.commands.serve import run_server  # noqa: PLC0415
    from stemmadb.server.commands.shared import told  # noqa: PLC0415
    from stemmadb.server.serving.settings.sources import load  # noqa: PLC0415

    made = _options(
        spaces=(places.SPACE,),
        http=options["http"],
        mcp=options["mcp"],
        ns=options["ns"],
        origins=options["origins"],
        hosts=options["hosts"],
        unsafe=options["unsafe_bind"],
        requires_secret=options["require_secret"],
        idle=options["idle"],
        cooldown=options["cooldown"],
        evidence_min=options["min_evidence"],
        shift=options["test_clock"],
        test_ids=options["test_ids"],
    )
    at = directory(data)
    make_private(at)
    flags = {"data": str(at), "host": "127.0.0.1", "port": str(port), "make_spaces": "anyone"}
    loaded = load(flags=flags, environment={}, file=None, directory=at)
    with told(at):
        run_server(shell, loaded.config, [_beside(made)])


def _options(  # noqa: PLR0913  # one for each option of the command
    *,
    spaces: Sequence[str],
    http: Sequence[str],
    mcp: Sequence[str] = (),
    ns: str | None = None,
    origins: Sequence[str] = (),
    hosts: Sequence[str] = (),
    unsafe: bool = False,
    requires_secret: bool = False,
    idle: float | None = None,
    cooldown: float | None = None,
    evidence_min: int = 0,
    shift: str | None = None,
    test_ids: str | None = None,
) -> MemoryOptions:
    from stemmadb.memory.process.memory_server import HttpWish, McpWish, MemoryOptions  # noqa: PLC0415
    from stemmadb.memory.rules.cooldown import COOLDOWN_SECONDS  # noqa: PLC0415

    namespace = project_namespace(ns) if mcp else ""
    return MemoryOptions(
        spaces=tuple(spaces),
        http=[HttpWish(*_listener(text, spaces, unsafe=unsafe)) for text in http],
        mcp=[McpWish(space, namespace, at) for space, at in (_listener(text, spaces, unsafe=unsafe) for text in mcp)],
        origins=tuple(one.lower().rstrip("/") for one in origins),
        allowed_hosts=tuple(hosts),
        idle_seconds=idle,
        cooldown_seconds=COOLDOWN_SECONDS if cooldown is None else cooldown,
        evidence_min=evidence_min,
        clock_shift_ms=0 if shift is None else _shift(shift),
        requires_secret=requires_secret,
        test_ids=test_ids,
    )


def _listener(text: str, spaces: Sequence[str], *, unsafe: bool) -> tuple[str, ListenAddress]:
    from stemmadb.memory.process.http_listener import read_address  # noqa: PLC0415

    space, sign, address = text.partition("=")
    chosen = space if sign else spaces[0]
    if chosen not in spaces or (not sign and len(spaces) > 1):
        raise click.UsageError(f"Write {text!r} as SPACE=ADDR, with one of {', '.join(spaces)}")
    return chosen, read_address(address if sign else text, unsafe=unsafe)


def _shift(text: str) -> int:
    found = _SHIFT.fullmatch(text)
    if found is None:
        raise click.UsageError(f"Write --test-clock {text!r} as +3500s, -5m or +1h")
    return int(found[1]) * _UNITS[found[2]]


def _beside(options: MemoryOptions) -> MemoryBeside:
    from stemmadb.memory.process.division import MemoryBeside  # noqa: PLC0415

    return MemoryBeside(options)


class MemoryCompanion:
    """What `stemmadb serve` gets from the entry point group `stemmadb.companions`."""

    def __init__(self) -> None:
        self.options: Sequence[click.Option] = (
            click.Option(
                ["--memory", "memory_spaces"],
                multiple=True,
                metavar="SPACE",
                help="Serve agent memory in this space.",
            ),
            click.Option(
                ["--memory-http", "memory_http"],
                multiple=True,
                metavar="ADDR",
                help="Serve the memory plugin API: HOST:PORT or unix:/PATH; SPACE=ADDR with several spaces.",
            ),
            click.Option(
                ["--memory-mcp", "memory_mcp"],
                multiple=True,
                metavar="ADDR",
                help="Serve memory by MCP over HTTP: HOST:PORT or unix:/PATH; SPACE=ADDR with several spaces.",
            ),
            click.Option(["--memory-ns", "memory_ns"], metavar="NAME", help="The namespace of --memory-mcp."),
            click.Option(
                ["--memory-cooldown", "memory_cooldown"],
                type=click.FloatRange(min=0),
                metavar="SECONDS",
                help="Between two writes of a secret by MCP; default: 2.",
            ),
        )

    def companion(self, flags: Mapping[str, object]) -> MemoryBeside | None:
        spaces, http = _texts(flags["memory_spaces"]), _texts(flags["memory_http"])
        mcp, ns, cooldown = _texts(flags["memory_mcp"]), flags["memory_ns"], flags["memory_cooldown"]
        if not spaces and not http and not mcp:
            return None
        if not spaces:
            raise click.UsageError(f"{'--memory-http' if http else '--memory-mcp'} needs --memory SPACE")
        waits = cooldown if isinstance(cooldown, float) else None
        named = None if ns is None else str(ns)
        return _beside(_options(spaces=spaces, http=http, mcp=mcp, ns=named, cooldown=waits))

    def share(self, arguments: Mapping[str, Any], sockets: Sequence[socket.socket]) -> MemoryBeside:
        from stemmadb.memory.process.division import shared  # noqa: PLC0415

        return shared(arguments, sockets)


def _texts(given: object) -> Sequence[str]:
    return [str(one) for one in given] if isinstance(given, list | tuple) else []


companion: Final = MemoryCompanion()
