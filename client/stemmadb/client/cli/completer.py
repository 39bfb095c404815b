"""Completion of what only the server or the key ring knows. It is quick, or silent: nobody waits for a shell.

Bash breaks words at colons, of which ids are full, so that its script is our own.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import BashComplete, add_completion_class, split_arg_string

if TYPE_CHECKING:  # connecting has the options that complete with this
    from stemmadb.client import Space

ANSWER_SECONDS: Final = 1.0
"""How long a server may take; then there is nothing to choose from."""
SHOWN_MAX: Final = 200

Find = Callable[["Space", str], Awaitable[list[str]]]


def complete_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The ids that begin so."""

    async def find(space: Space, begin: str) -> list[str]:
        return list(await space.query(f"{begin}*"))

    return _asked(ctx, incomplete, find)


def complete_branches(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The branches that begin so."""

    async def find(space: Space, begin: str) -> list[str]:
        return [one.name for one in await space.branches() if one.name.startswith(begin)]

    return _asked(ctx, incomplete, find)


def complete_tags(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The tags that begin so."""

    async def find(space: Space, begin: str) -> list[str]:
        return [one.name for one in await space.tags.list() if one.name.startswith(begin)]

    return _asked(ctx, incomplete, find)


def complete_identities(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The names in the key ring."""
    from stemmadb.client.keys.ring import KeyRing  # noqa: PLC0415

    with suppress(Exception):
        return [name for name in KeyRing(_path(ctx)).identities() if name.startswith(incomplete)]
    return []


def complete_spaces(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The names of spaces on this server."""
    from stemmadb.client.cli.connection import URL  # noqa: PLC0415
    from stemmadb.client.keys.names import Names  # noqa: PLC0415

    with suppress(Exception):
        known = Names(_path(ctx)).all(ctx.params.get("url") or URL)
        return [name for name in known if name.startswith(incomplete)]
    return []


def _path(ctx: click.Context) -> Path | None:
    given = ctx.params.get("config")
    return given if isinstance(given, Path) else None


def _asked(ctx: click.Context, begin: str, find: Find) -> list[str]:
    # Imported here: every command loads this module, and those that work without a server need no event loop.
    import asyncio  # noqa: PLC0415

    from stemmadb.client.cli.connection import Target, database, open_space  # noqa: PLC0415
    from stemmadb.client.keys.ring import DEFAULT, KeyRing  # noqa: PLC0415

    given = {name: ctx.params[name] for name in Target._fields if ctx.params.get(name) is not None}
    target = Target(**given)

    async def ask() -> list[str]:
        if KeyRing(target.config).find(target.identity or DEFAULT) is None:
            return []  # whoever presses a key has not asked for an identity to be made
        async with asyncio.timeout(ANSWER_SECONDS), database(target) as db:
            return await find(await open_space(db, target), begin)

    with suppress(Exception):  # whatever is wrong, this is not the time to tell it
        found = asyncio.run(ask())
        return [one for one in found if one.isprintable()][:SHOWN_MAX]  # an escaped id would be another id
    return []


# ---------------------------------------------------------------- bash


class ColonBash(BashComplete):
    """Bash, given the whole line: its own words are broken at colons, and a choice must not repeat what is before
    the last of them."""

    source_template = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" response kind value before=""
    local word="${line##*[[:space:]]}"
    if [[ "$word" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        before="${word%%"${word##*:}"}"
    fi
    response=$(env COMP_LINE="$line" %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while IFS=',' read -r kind value; do
        case "$kind" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$before"}") ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        typed = os.environ.get("COMP_LINE", "")
        words = split_arg_string(typed)[1:]
        if not words or typed[-1:].isspace():
            return words, ""
        return words[:-1], words[-1]


def teach_click() -> None:
    """From now on click speaks our Bash."""
    add_completion_class(ColonBash, "bash")
