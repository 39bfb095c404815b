"""The group of all commands: finds them, runs one, and turns whatever happens into a sentence and an exit code.

A command gets a `CliContext` as click's context object and returns a mapping, its answer for `--json`, which every
command has. An answer with an `error` says no, or that a part was not done (`CliContext.ended`); a raised error
says why nothing was done.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import Any, Final

import click

from stemmadb.client.cli import exits
from stemmadb.client.cli.command_loader import LoadedCommand, points_by_command
from stemmadb.client.cli.completer import teach_click
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.escapes import clean
from stemmadb.protocol.errors import StemmaError

MISSING = 'Some commands need the server: run pip install -e ".[server]" in the clone.'
HIDDEN: Final = frozenset({"spaces"})
"""Older names of commands: they work, and help does not list them."""
GROUPS: Final = {
    "Start": ("serve", "demo", "console", "status", "space", "keys"),
    "Read and write": ("get", "list", "query", "set", "delete", "watch", "blob"),
    "The past": ("log", "history", "diff", "blame", "revert"),
    "Branches": ("branch", "tag", "merge"),
    "Rights": ("acl",),
    "Operate": ("backup", "restore", "verify", "export", "import", "compact", "erase", "scrub", "migrate"),
    "Agent memory": ("memory", "mcp"),
}
OTHERS: Final = "More"
SHORT: Final = 64
"""Letters of a command in the list: one line on a terminal of 80 columns."""
NEAR: Final = 0.6
"""How alike a word is to the one that may have been meant."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - only those who mistype need it

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=NEAR)), None)


class NamedCommands(click.Group):
    """A group below the first: a word that it does not know is answered with those that it does."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            known = self.list_commands(ctx)
            meant = nearest(args[0], known)
            hint = f"It has {', '.join(known)}." if meant is None else f"Did you mean '{meant}'?"
            raise click.UsageError(
                f"There is no command {clean(args[0][:80])!r} in '{ctx.command_path}'. {hint}", ctx
            ) from None


class Commands(click.Group):
    """Looks the commands up when they are asked for."""

    is_partial = False
    """Whether some that were asked for were left out, since what they need is not installed."""

    @cached_property
    def _points(self) -> dict[str, list[EntryPoint]]:
        return points_by_command()

    @cached_property
    def _found(self) -> dict[str, click.Command | None]:
        return {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(name for name in self._points if name not in HIDDEN)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """None if there is none, or not all is installed that it needs: help and completion leave it out then."""
        if cmd_name not in self._found:
            found = LoadedCommand(self._points.get(cmd_name, []))
            self._found[cmd_name] = found.command
            self.is_partial |= found.is_partial
        return self._found[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as wrong:
            if self.is_partial:
                raise click.UsageError(f"{wrong.message} {MISSING}", ctx) from None
            meant = nearest(args[0], [name for name in self._points if name not in HIDDEN])
            hint = "" if meant is None else f" Did you mean '{meant}'?"
            raise click.UsageError(f"There is no command {clean(args[0][:80])!r}.{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """In groups, by what a person wants to do; a command that no group names is under the last title."""
        found = {name: command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))}
        titled = {title: [name for name in names if name in found] for title, names in GROUPS.items()}
        known = {name for names in titled.values() for name in names}
        titled.setdefault(OTHERS, []).extend(name for name in found if name not in known)
        width = max(map(len, found), default=0)
        for title, names in titled.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl(
                        [(f"{name:<{width}}", found[name].get_short_help_str(SHORT)) for name in names]
                    )

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
        shell = CliContext(is_json="--json" in words)  # known before the words are understood, or not

        def run() -> object:
            return super(Commands, self).main(
                words, prog_name or "stemmadb", complete_var, standalone_mode=False, obj=shell, **extra
            )

        code = _exit_code(run, shell)
        if args is None:  # the process ends here: one more Ctrl-C while Python leaves does not change its answer
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(code)


def _exit_code(run: Callable[[], object], shell: CliContext) -> int:
    try:
        return _answered(run(), shell)
    except (click.Abort, KeyboardInterrupt) as abort:
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
        shell.fail("unavailable", _system_error(error))
        return exits.UNREACHABLE
    except Exception as error:
        shell.fail("internal", f"Internal error ({type(error).__name__}: {error}). Please report it.")
        return exits.INTERNAL_ERROR


def _answered(result: object, shell: CliContext) -> int:
    """Help and the like end with a number, commands with their answer."""
    if not isinstance(result, Mapping):
        return result if isinstance(result, int) else exits.DONE
    shell.answer(result)
    if shell.exit_code is not None:
        return shell.exit_code
    return exits.NO if "error" in result else exits.DONE


def _sentence(wrong: click.ClickException) -> str:
    where = wrong.ctx.command_path if isinstance(wrong, click.UsageError) and wrong.ctx else "stemmadb"
    said = " ".join(wrong.format_message().split())  # click lists choices over several lines
    if isinstance(wrong, click.NoSuchOption) and wrong.possibilities:
        near = " or ".join(f"'{name}'" for name in sorted(wrong.possibilities))
        said = f"There is no option '{clean(wrong.option_name[:80])}'. Did you mean {near}?"
    return f"{said if said.endswith(('.', '?', '!')) else f'{said}.'} Try '{where} --help'."


def _system_error(error: OSError) -> str:
    what = f" {error.filename}" if error.filename else ""
    return f"Cannot open or use{what}: {error.strerror or error}. Check the path, its permissions and the disk."


@click.group(
    "stemmadb", cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="stemmadb", prog_name="stemmadb")
@click.pass_context
def main(ctx: click.Context) -> None:
    """StemmaDB, a versioned JSON store.

    Each command has --help with an example, and --json. Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 cannot
    reach or open, 4 refused.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
