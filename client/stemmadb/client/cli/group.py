"""The group of all commands: finds them, runs one, and turns whatever happens into a sentence and an exit code.

Commands come from the entry points `stemmadb.commands`, each a list of click commands, so that the client needs no
server to be there. A command gets a `Shell` as the object of its context and returns a mapping, its answer for
`--json`, which every command has. An answer with an `error` in it says no, or that a part was not done
(`Shell.ended`); an error that is raised says why nothing was done.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from stemmadb.client.cli import exits
from stemmadb.client.cli.completing import teach_click
from stemmadb.client.cli.shell import Shell
from stemmadb.client.cli.ways import joined
from stemmadb.protocol.errors import StemmaError

ENTRY_POINTS = "stemmadb.commands"
OURS = "stemmadb"
MISSING = 'Some commands need the server: pip install "stemmadb[server]".'


class Commands(click.Group):
    """Looks the commands up when they are asked for."""

    is_partial = False
    """Whether some were left out, since what they need is not installed."""

    @cached_property
    def _found(self) -> dict[str, click.Command]:
        found: dict[str, click.Command] = {}
        for point in entry_points(group=ENTRY_POINTS):
            try:
                commands = point.load()
            except ModuleNotFoundError as missing:
                if not _is_not_installed(missing, point):
                    raise
                self.is_partial = True
                continue
            for command in commands:
                name, told = str(command.name), _with_json(command)
                found[name] = joined(found[name], told) if name in found else told
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self._found)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return self._found.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as wrong:
            if self.is_partial:
                raise click.UsageError(f"{wrong.message} {MISSING}", ctx) from None
            raise

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002
        **extra: Any,
    ) -> Any:
        """Runs one command and exits."""
        teach_click()
        words = list(sys.argv[1:] if args is None else args)
        shell = Shell(is_json="--json" in words)  # known before the words are understood, or not

        def run() -> object:
            return super(Commands, self).main(
                words, prog_name or "stemmadb", complete_var, standalone_mode=False, obj=shell, **extra
            )

        code = _exit_code(run, shell)
        if args is None:  # the process ends here: one more Ctrl-C while Python leaves does not change its answer
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(code)


def _is_not_installed(missing: ModuleNotFoundError, point: EntryPoint) -> bool:
    """Whether a package is not there, as opposed to a module of a package that is: that is a mistake of ours."""
    package = (missing.name or "").partition(".")[0]
    if package != OURS:
        return bool(package)
    return f"{point.module}.".startswith(f"{missing.name}.")


def _with_json(command: click.Command) -> click.Command:
    """The same command with one more option, which `main` has looked for already; so have its own commands."""
    told = copy(command)
    if not any("--json" in option.opts for option in command.params):
        says = "Print one JSON object as the last line, for programs."
        told.params = [*command.params, click.Option(["--json"], is_flag=True, expose_value=False, help=says)]
    if isinstance(told, click.Group):
        told.commands = {name: _with_json(one) for name, one in told.commands.items()}
    return told


def _exit_code(run: Callable[[], object], shell: Shell) -> int:
    try:
        return _answered(run(), shell)
    except click.Abort as abort:
        shell.fail("interrupted", f"Interrupted. {str(abort) or 'Nothing was left half done.'}")
        return exits.INTERRUPTED
    except click.ClickException as wrong:
        shell.fail("wrong_use", _sentence(wrong))
        return exits.WRONG_USE
    except StemmaError as error:
        shell.fail(error.code, error.message)
        return exits.code_of(error)
    except SystemExit as ended:
        return exits.UNREACHABLE if ended.code else exits.DONE  # a reader that has gone; or shell completion is done
    except OSError as error:
        shell.fail("unavailable", _told(error))
        return exits.UNREACHABLE
    except Exception as error:
        shell.fail("internal", f"StemmaDB made a mistake ({type(error).__name__}: {error}). Please report it.")
        return exits.OUR_MISTAKE


def _answered(result: object, shell: Shell) -> int:
    """Help and the like end with a number, commands with their answer."""
    if not isinstance(result, Mapping):
        return result if isinstance(result, int) else exits.DONE
    shell.answer(result)
    if "error" not in result:
        return exits.DONE
    return exits.NO if shell.exit_code is None else shell.exit_code


def _sentence(wrong: click.ClickException) -> str:
    where = wrong.ctx.command_path if isinstance(wrong, click.UsageError) and wrong.ctx else "stemmadb"
    return f"{wrong.format_message()} Try '{where} --help'."


def _told(error: OSError) -> str:
    what = f" {error.filename}" if error.filename else ""
    return f"Cannot open or use{what}: {error.strerror or error}. Check the path, its permissions and the disk."


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stemmadb", prog_name="stemmadb")
@click.pass_context
def main(ctx: click.Context) -> None:
    """StemmaDB, a versioned JSON store.

    Each command has --help with an example, and --json. Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 cannot
    reach or open, 4 refused.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
