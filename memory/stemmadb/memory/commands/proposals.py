"""`stemmadb memory proposals [list|show|export|import]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from stemmadb.memory.commands.asking import ask, asks
from stemmadb.memory.commands.decisions import namespace_option
from stemmadb.memory.commands.project_namespace import project_namespace

all_option = click.option("--all", "everything", is_flag=True, help="Those that were reviewed, too.")
diff_option = click.option("--diff", is_flag=True, help="Show what each would replace.")


@click.group(invoke_without_command=True)
@all_option
@diff_option
@namespace_option
@asks
@click.pass_context
def proposals(
    context: click.Context, data: Path | None, space: str | None, ns: str | None, everything: bool, diff: bool
) -> Mapping[str, object] | None:
    """List the proposals that wait for a review, show them, and edit them as files.

    Example: stemmadb memory proposals --diff
    """
    if context.invoked_subcommand is not None:
        return None
    return _listed(context.obj, data, space, ns, all=everything, diff=diff)


@proposals.command("list")
@all_option
@diff_option
@namespace_option
@asks
@click.pass_obj
def list_(
    shell: Any, data: Path | None, space: str | None, ns: str | None, everything: bool, diff: bool
) -> Mapping[str, object]:
    """List the proposals that wait for a review.

    Example: stemmadb memory proposals list --ns custom:acme.api
    """
    return _listed(shell, data, space, ns, all=everything, diff=diff)


def _listed(
    shell: Any, data: Path | None, space: str | None, ns: str | None, **asked: object
) -> Mapping[str, object]:
    found = ask(data, space, "proposals", ns=project_namespace(ns), **asked)
    for one in found["proposals"]:
        shell.say(f"{one['proposal_id']}  {one['status']}  {one['target']}  {one['title']}")
        if asked.get("diff"):
            _say_difference(shell, one)
        else:
            shell.say(f"    {' '.join(one['rationale'].split())[:200]}")
    return found


def _say_difference(shell: Any, one: Mapping[str, Any]) -> None:
    active = one.get("active")
    if active is None:
        shell.say("    the target has no active decision")
    else:
        shell.say(f"    replaces {active['decision_id']} ({active['authority']})")
        for line in _said(active):
            shell.say(f"  - {line}")
    for line in _said(one):
        shell.say(f"  + {line}")


def _said(one: Mapping[str, Any]) -> list[str]:
    return [one["title"], *one["rationale"].splitlines(), *(f"=> {each}" for each in one.get("consequences") or ())]


@proposals.command()
@click.argument("proposal_id", metavar="ID")
@namespace_option
@asks
@click.pass_obj
def show(shell: Any, data: Path | None, space: str | None, ns: str | None, proposal_id: str) -> Mapping[str, object]:
    """Show one proposal and what it would replace.

    Example: stemmadb memory proposals show 550e8400-e29b-41d4-a716-446655440000.md
    """
    found = ask(data, space, "proposals", ns=project_namespace(ns), id=proposal_id, diff=True)
    (one,) = found["proposals"]
    shell.say(f"{one['proposal_id']}  {one['status']}  {one['target']}  since {one['created_at']}")
    _say_difference(shell, one)
    for each in one.get("evidence") or ():
        shell.say(f"    evidence: {each}")
    return dict(one)


@proposals.command()
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(file_okay=False, path_type=Path))
@namespace_option
@asks
@click.pass_obj
def export(shell: Any, data: Path | None, space: str | None, ns: str | None, directory: Path) -> Mapping[str, object]:
    """Write each proposal that waits for a review as a Markdown file.

    Example: stemmadb memory proposals export review/
    """
    found = ask(data, space, "proposals_export", ns=project_namespace(ns))
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in found["files"].items():
        (directory / name).write_text(text, encoding="utf-8")
        shell.say(str(directory / name))
    return {"files": sorted(found["files"])}


@proposals.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@namespace_option
@asks
@click.pass_obj
def import_(
    shell: Any, data: Path | None, space: str | None, ns: str | None, files: tuple[Path, ...]
) -> Mapping[str, object]:
    """Propose what Markdown files say. The review window begins now if a file is new or says something else.

    Example: stemmadb memory proposals import review/*.md
    """
    texts = {one.name: one.read_text(encoding="utf-8", errors="replace") for one in files}
    done = ask(data, space, "proposals_import", ns=project_namespace(ns), files=texts)
    for one in done["imported"]:
        shell.say(f"{one['proposal_id']}  {'proposed' if one['changed'] else 'unchanged'}")
    return done
