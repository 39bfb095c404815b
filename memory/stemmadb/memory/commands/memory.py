"""The group `stemmadb memory` and the commands that ask the memory server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import aiohttp  # noqa: F401 - where it is not installed there is no agent memory: the group is left out
import click

from stemmadb.memory.commands.asking import ask, asks, data_option, directory
from stemmadb.memory.commands.decisions import COMMANDS as DECISION_COMMANDS
from stemmadb.memory.commands.files import files
from stemmadb.memory.commands.json_requests import op
from stemmadb.memory.commands.project_namespace import project_namespace
from stemmadb.memory.commands.proposals import proposals
from stemmadb.memory.commands.serving import serve
from stemmadb.memory.commands.transfers import export, import_
from stemmadb.memory.rules.namespaces import read_name
from stemmadb.memory.rules.refusals import InvalidRequest

namespaces_option = click.option("--ns", multiple=True, help="A namespace; may be repeated. Default: all of them.")
limit_option = click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)


@click.group()
def memory() -> None:
    """Agent memory: search it, forget, look at its past, and serve it to agents.

    Example: stemmadb memory search "database policy"
    """


memory.add_command(serve)
memory.add_command(files)
memory.add_command(op)
memory.add_command(proposals)
memory.add_command(export)
memory.add_command(import_)
for _command in DECISION_COMMANDS:
    memory.add_command(_command)


@memory.command()
@click.argument("query", required=False)
@namespaces_option
@click.option("--kind", "kinds", multiple=True, help="Only this kind; may be repeated.")
@limit_option
@click.option("--at", metavar="MOMENT", help="As of a version, a time such as 2026-11-16T09:00:00Z, or a tag.")
@asks
@click.pass_obj
def search(
    shell: Any,
    data: Path | None,
    space: str | None,
    query: str | None,
    ns: tuple[str, ...],
    kinds: tuple[str, ...],
    limit: int,
    at: str | None,
) -> Mapping[str, object]:
    """Find memories by words; without a query the newest.

    Example: stemmadb memory search "database policy" --ns custom:acme.api
    """
    found = ask(data, space, "search", query=query, ns=ns, kinds=kinds, limit=limit, at=at)
    _show_found(shell, found)
    return found


@memory.command()
@click.argument("query")
@click.option(
    "--at", metavar="MOMENT", required=True, help="A version, a time such as 2026-11-16T09:00:00Z, or a tag."
)
@namespaces_option
@limit_option
@asks
@click.pass_obj
def believed(
    shell: Any, data: Path | None, space: str | None, query: str, at: str, ns: tuple[str, ...], limit: int
) -> Mapping[str, object]:
    """Find what memory held at a past moment.

    Example: stemmadb memory believed "database policy" --at 2026-11-16T09:00:00Z
    """
    found = ask(data, space, "search", query=query, ns=ns, limit=limit, at=at)
    _show_found(shell, found)
    return found


def _show_found(shell: Any, found: Mapping[str, Any]) -> None:
    for one in found["memories"]:
        score = "" if one["score"] is None else f"  {one['score']:.3f}"
        shell.say(f"{one['id']}  {one['ns']}  {one['kind']}{score}")
        shell.say(f"    {' '.join(one['text'].split())[:200]}")
    shell.say(f"{len(found['memories'])} found, as of version {found['version']} and {found['now']}")
    if found["partial"]:
        shell.warn("Only the newest memories were ranked: every word of the query is very common.")
    if found["degraded"]:
        shell.warn("The index is behind; the newest memories may be missing.")


@memory.command()
@click.argument("memory_id", metavar="ID", required=False)
@click.option("--ns", help="Forget this namespace and everything in it.")
@click.option("--keep-history", is_flag=True, help="Hide it, and leave its past readable.")
@asks
@click.pass_obj
def forget(
    shell: Any, data: Path | None, space: str | None, memory_id: str | None, ns: str | None, keep_history: bool
) -> Mapping[str, object]:
    """Forget a memory, or a namespace: nothing finds it any more, and its bytes are destroyed.

    Example: stemmadb memory forget 550e8400-e29b-41d4-a716-446655440000
    """
    if (memory_id is None) == (ns is None):
        raise click.UsageError("Give the ID of a memory, or --ns NAME")
    done = ask(data, space, "forget", id=memory_id, ns=ns, keep_history=keep_history)
    what = memory_id if ns is None else f"namespace {ns}"
    shell.say(f"{what} is forgotten{'.' if keep_history else ', and its bytes are gone.'} {done['stays']}")
    return done


@memory.command()
@click.argument("memory_id", metavar="ID")
@asks
@click.pass_obj
def history(shell: Any, data: Path | None, space: str | None, memory_id: str) -> Mapping[str, object]:
    """Show every change of a memory: when, who, in which session, and what.

    Example: stemmadb memory history 550e8400-e29b-41d4-a716-446655440000
    """
    found = ask(data, space, "history", id=memory_id)
    for one in found["changes"]:
        gone = " (erased)" if one["is_gone"] else ""
        shell.say(f"{one['version']}  {one['time']}  {one['kind']}{gone}  {one['author']}")
        text = (one["value"] or {}).get("text") if isinstance(one["value"], dict) else one["patch"]
        if text:
            shell.say(f"    {' '.join(str(text).split())[:200]}")
    return found


@memory.command()
@asks
@click.pass_obj
def check(shell: Any, data: Path | None, space: str | None) -> Mapping[str, object]:
    """Check that every rule of memory is true right now; exit code 1 if one is not.

    Example: stemmadb memory check
    """
    found = ask(data, space, "check")
    for one in found["findings"]:
        shell.say(f"{one['rule']}  {one['entity']}  {one['why']}")
    shell.say(f"{len(found['findings'])} findings at version {found['version']}")
    if not found["findings"]:
        return found
    message = f"{len(found['findings'])} rules are broken."
    return dict(found) | {"error": {"code": "broken", "message": message}}


@memory.command()
@asks
@click.pass_obj
def namespaces(shell: Any, data: Path | None, space: str | None) -> Mapping[str, object]:
    """List the namespaces, and say which one the project in this directory has.

    Example: stemmadb memory namespaces
    """
    found = ask(data, space, "namespaces")
    for one in found["namespaces"]:
        shell.say(f"{one['name']}  {one['kind']}  since {one['created_at']}")
    try:
        here: str | None = project_namespace(None)
    except click.UsageError:  # in / and at home there is no project
        here = None
    shell.say("This directory is no project" if here is None else f"This directory has {here}")
    return {**found, "here": here}


@memory.command()
@click.option("--erase", is_flag=True, help="Destroy the bytes too.")
@asks
@click.pass_obj
def sweep(shell: Any, data: Path | None, space: str | None, erase: bool) -> Mapping[str, object]:
    """Delete what expired more than a day ago. A memory server does it every hour by itself.

    Example: stemmadb memory sweep --erase
    """
    done = ask(data, space, "sweep", erase=erase)
    shell.say(f"{done['memories']} memories and {done['namespaces']} namespaces were deleted")
    return done


@memory.command()
@asks
@click.pass_obj
def reindex(shell: Any, data: Path | None, space: str | None) -> Mapping[str, object]:
    """Drop the search index and build it again from the log.

    Example: stemmadb memory reindex
    """
    done = ask(data, space, "reindex")
    shell.say(f"The index is built again, up to version {done['version']}")
    return done


@memory.group()
def secret() -> None:
    """Make, list and revoke secrets. Without one a caller can read and not write.

    Example: stemmadb memory secret new agent --name ada
    """


@secret.command("new")
@click.argument("role", type=click.Choice(["agent", "admin"]))
@click.option("--name", help="The agent's name; default: agent-1, agent-2, ...")
@click.option("--ns", multiple=True, help="Limit it to this namespace; may be repeated.")
@data_option
@click.pass_obj
def new_secret(
    shell: Any, data: Path | None, role: Literal["agent", "admin"], name: str | None, ns: tuple[str, ...]
) -> Mapping[str, object]:
    """Make a secret and print it. It cannot be shown again.

    Example: stemmadb memory secret new agent --name ada
    """
    from stemmadb.memory.process.places import make_private  # noqa: PLC0415
    from stemmadb.memory.process.secret_file import SecretFile  # noqa: PLC0415

    limits = _checked_names(ns) or None
    at = directory(data)
    make_private(at)
    try:
        made = SecretFile(at).make(role, name, limits)
    except InvalidRequest as taken:
        raise click.UsageError(str(taken)) from None
    shell.say(made)
    if not shell.is_json:
        configuration = {"command": "stemmadb", "args": ["mcp"], "env": {"AGENT_MEMORY_SECRET": made}}
        _print_configuration({"mcpServers": {"memory": configuration}})
    return {"secret": made, "role": role}


def _checked_names(names: tuple[str, ...]) -> list[str]:
    try:
        return [read_name(one, "ns") for one in names]
    except InvalidRequest as wrong:
        raise click.UsageError(str(wrong)) from None


def _print_configuration(configuration: Mapping[str, object]) -> None:
    import msgspec  # noqa: PLC0415

    print(msgspec.json.encode(configuration).decode(), file=sys.stderr)


@secret.command("list")
@data_option
@click.pass_obj
def list_secrets(shell: Any, data: Path | None) -> Mapping[str, object]:
    """List who has a secret.

    Example: stemmadb memory secret list
    """
    from stemmadb.memory.process.secret_file import SecretFile  # noqa: PLC0415

    found = SecretFile(directory(data)).all()
    for one in found:
        shell.say(f"{one.name}  {one.role}  {', '.join(one.namespaces or ['all namespaces'])}")
    return {"secrets": [{"name": one.name, "role": one.role, "namespaces": one.namespaces} for one in found]}


@secret.command("revoke")
@click.argument("name")
@data_option
@click.pass_obj
def revoke_secret(shell: Any, data: Path | None, name: str) -> Mapping[str, object]:
    """Take a secret back, at once.

    Example: stemmadb memory secret revoke ada
    """
    from stemmadb.memory.process.secret_file import SecretFile  # noqa: PLC0415

    if not SecretFile(directory(data)).revoke(name):
        raise click.UsageError(
            f"There is no secret of the name {name!r}. List them with 'stemmadb memory secret list'"
        )
    shell.say(f"The secret of {name} is revoked")
    return {"revoked": name}
