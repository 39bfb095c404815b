"""`stemmadb serve`: starts a server, with a flag for every setting."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args, get_origin

import apsw  # noqa: F401 - where it is not installed there is no server: the command is left out, as the others are
import click

from stemmadb.protocol.errors import Unavailable

if TYPE_CHECKING:  # what a server needs takes a while to import, and the other commands do not need it
    from stemmadb.server.serving.companions import Companion
    from stemmadb.server.serving.settings.config import Config

HEAD = "Options"


class ServingShell(Protocol):
    """A shell that can also be answered before the command ends."""

    def say_lines(self, text: str) -> None:
        """Lines for a person."""
        ...

    def answer(self, answer: Mapping[str, object]) -> None:
        """One JSON object, with `--json`."""
        ...


class ServeCommand(click.Command):
    """Has the settings as options, and shows them in their groups; they are looked up when they are needed."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from stemmadb.server.commands import companions  # noqa: PLC0415

        return [*super().get_params(ctx), *companions.options(), *_options()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from stemmadb.server.serving.settings.printing import names_by_group  # noqa: PLC0415

        groups = {name: group for group, names in names_by_group().items() for name in names}
        shown: dict[str, list[tuple[str, str]]] = {HEAD: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                shown.setdefault(groups.get(param.name or "", HEAD), []).append(record)
        for group, records in shown.items():
            with formatter.section(group):
                formatter.write_dl(records)


@click.command(cls=ServeCommand)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A TOML file; default: ./stemmadb.toml if it exists.",
)
@click.option("--print-config", is_flag=True, help="Print every setting and where it came from, and exit.")
@click.pass_obj
def serve(
    shell: ServingShell, /, config: Path | None, print_config: bool, **flags: object
) -> Mapping[str, object] | None:
    """Start a server. It runs until Ctrl-C or SIGTERM, finishes the commits it has received, and exits with 0.

    Every setting can be a flag, a variable (STEMMADB_PORT) or a line of a TOML file (port = 8420); flags win over
    variables, variables over the file. See docs/operating.md.

    Example: stemmadb serve --port 8420 --data ./data
    """
    from stemmadb.server.commands import companions  # noqa: PLC0415
    from stemmadb.server.serving.settings.printing import as_answer, as_toml  # noqa: PLC0415
    from stemmadb.server.serving.settings.sources import load  # noqa: PLC0415

    beside = companions.chosen(flags)
    given = {name: value for name, value in flags.items() if value is not None}
    loaded = load(flags=given, environment=os.environ, file=config, directory=Path())
    if print_config:
        shell.say_lines(as_toml(loaded).rstrip("\n"))
        return as_answer(loaded)
    from stemmadb.server.commands.shared import told  # noqa: PLC0415

    with told(loaded.config.data):
        run_server(shell, loaded.config, beside)
    return None


def run_server(shell: ServingShell, config: Config, beside: Sequence[Companion] = ()) -> None:
    """Serves until it is stopped; what the shell prints is the banner."""
    from stemmadb.server.serving import banner, build, loops  # noqa: PLC0415
    from stemmadb.server.serving.app import Serving, serve  # noqa: PLC0415
    from stemmadb.server.serving.logs import logging_to  # noqa: PLC0415
    from stemmadb.server.serving.parent import serve_with_workers  # noqa: PLC0415
    from stemmadb.server.serving.signals import stopping_on_signals  # noqa: PLC0415

    if beside and config.storage is not None:
        raise Unavailable("Agent memory runs beside a data directory. Give a memory server the --url of a node.")
    if config.storage is not None and config.workers > 1:
        raise Unavailable("Workers share a data directory. With --storage, run several nodes on the machine instead.")
    if config.blobs is not None and config.storage is None:
        raise Unavailable("--blobs goes with --storage: a data directory has its blobs beside its spaces.")

    def ready(serving: Serving) -> None:
        shell.say_lines(banner.human(serving))
        shell.answer(banner.answer(serving))
        sys.stdout.flush()

    async def run() -> None:
        stop = asyncio.Event()
        with stopping_on_signals(stop):
            if config.workers > 1:
                await serve_with_workers(config, ready=ready, stop=stop, companions=beside)
                return
            await serve(
                config,
                make_service=build.make_service,
                make_listener=build.make_listener,
                make_web=build.make_web,
                ready=ready,
                stop=stop,
                companions=beside,
            )

    with logging_to(sys.stderr, form=config.log_format, level=config.log_level):
        loops.run(run())


def _options() -> list[click.Parameter]:
    from stemmadb.server.serving.settings.printing import names_by_group  # noqa: PLC0415

    return [_option(name) for names in names_by_group().values() for name in names]


def _option(name: str) -> click.Option:
    """Its value is a text or nothing; what it may be is checked where all sources are."""
    from stemmadb.server.serving.settings.config import Config, description_of  # noqa: PLC0415
    from stemmadb.server.serving.settings.sources import FITTED, flag_of  # noqa: PLC0415

    field = Config.model_fields[name]
    flag = flag_of(name)
    if isinstance(field.default, bool):
        return click.Option([f"{flag}/--no-{flag.removeprefix('--')}", name], default=None, help=description_of(name))
    has_default = field.default not in (None, ()) and name not in FITTED
    shown = f"  [default: {field.default}]" if has_default else ""
    return click.Option([flag, name], metavar=_metavar(field.annotation), help=f"{description_of(name)}{shown}")


def _metavar(kind: object) -> str:
    from stemmadb.server.serving.settings.config import FilePath  # noqa: PLC0415

    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    names: Mapping[object, str] = {int: "N", str: "TEXT", Path: "PATH", FilePath | None: "PATH"}
    return names.get(kind, "LIST")
