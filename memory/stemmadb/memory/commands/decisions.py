"""`stemmadb memory decide|supersede|propose|accept|reject|audit`, and `setup` for MCP clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from stemmadb.memory.commands.asking import ask, asks, data_option, directory
from stemmadb.memory.commands.project_namespace import project_namespace

F = TypeVar("F", bound=Callable[..., Any])
_PLACES: Final = {
    "claude": "Put it into .mcp.json of your project.",
    "cursor": "Put it into .cursor/mcp.json of your project, or ~/.cursor/mcp.json for all projects.",
}

namespace_option = click.option("--ns", help="The namespace; default: that of the project in this directory.")


def says(function: F) -> F:
    """Adds what every decision has."""
    consequences = click.option("--consequence", "consequences", multiple=True, help="May be repeated.")
    because = click.option(
        "--because", "rationale", required=True, metavar="TEXT", help="Why: 10 characters at least."
    )
    titled = click.option("--title", help="A short title; default: the beginning of the reason.")
    return click.argument("target")(titled(because(consequences(namespace_option(asks(function))))))


@click.command()
@says
@click.pass_obj
def decide(shell: Any, /, data: Path | None, space: str | None, **said: Any) -> Mapping[str, object]:
    """Record a decision about a target that has none.

    Example: stemmadb memory decide database --because "SQLite needs no server of its own"
    """
    done = ask(data, space, "decide", **_draft(**said))
    shell.say(f"Recorded decision {done['decision_id']}")
    return done


@click.command()
@click.option("--old", "old_decision_ids", multiple=True, required=True, metavar="ID", help="The active decision.")
@says
@click.pass_obj
def supersede(
    shell: Any, /, data: Path | None, space: str | None, old_decision_ids: tuple[str, ...], **said: Any
) -> Mapping[str, object]:
    """Replace the active decision of a target by a new one.

    Example: stemmadb memory supersede database --old ID --because "We need more than one writer"
    """
    done = ask(data, space, "supersede", old_decision_ids=list(old_decision_ids), **_draft(**said))
    shell.say(f"Decision {done['decision_id']} supersedes {', '.join(old_decision_ids)}")
    return done


@click.command()
@click.option("--evidence", multiple=True, help="What speaks for it; may be repeated.")
@says
@click.pass_obj
def propose(
    shell: Any, /, data: Path | None, space: str | None, evidence: tuple[str, ...], **said: Any
) -> Mapping[str, object]:
    """Propose a decision for an admin to review.

    Example: stemmadb memory propose database --because "Two services write now" --evidence "issue 12"
    """
    done = ask(data, space, "propose", evidence=list(evidence), **_draft(**said))
    shell.say(f"Proposed {done['proposal_id']}")
    return done


def _draft(
    target: str, title: str | None, rationale: str, consequences: tuple[str, ...], ns: str | None
) -> dict[str, object]:
    shown = title or " ".join(rationale.split())[:60]
    said: dict[str, object] = {
        "title": shown,
        "target": target,
        "rationale": rationale,
        "consequences": list(consequences),
    }
    return said | {"ns": project_namespace(ns)}


@click.command()
@click.argument("proposal_id", metavar="ID")
@namespace_option
@asks
@click.pass_obj
def accept(
    shell: Any, data: Path | None, space: str | None, ns: str | None, proposal_id: str
) -> Mapping[str, object]:
    """Make a proposal the active decision of its target, one hour after it was proposed. Needs the role admin.

    Example: stemmadb memory accept 550e8400-e29b-41d4-a716-446655440000.md
    """
    done = ask(data, space, "accept", ns=project_namespace(ns), proposal_id=proposal_id)
    shell.say(f"Accepted as decision {done['decision_id']}")
    return done


@click.command()
@click.argument("proposal_id", metavar="ID")
@namespace_option
@asks
@click.pass_obj
def reject(
    shell: Any, data: Path | None, space: str | None, ns: str | None, proposal_id: str
) -> Mapping[str, object]:
    """Turn a proposal down, for good. Needs the role admin.

    Example: stemmadb memory reject 550e8400-e29b-41d4-a716-446655440000.md
    """
    done = ask(data, space, "reject", ns=project_namespace(ns), proposal_id=proposal_id)
    shell.say(f"Rejected {done['rejected']}")
    return done


@click.command()
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The newest so many lines.")
@data_option
@click.pass_obj
def audit(shell: Any, data: Path | None, limit: int) -> Mapping[str, object]:
    """Show the calls of MCP tools: who called what, and the verdict.

    Example: stemmadb memory audit --limit 20
    """
    from stemmadb.memory.process.audit_file import read_audit  # noqa: PLC0415

    lines = list(read_audit(directory(data)))[-limit:]
    for one in lines:
        shell.say("  ".join(str(value) for value in one.values()))
    return {"lines": lines}


@click.command()
@click.argument("client", type=click.Choice(sorted(_PLACES)))
@click.pass_obj
def setup(shell: Any, client: str) -> Mapping[str, object]:
    """Print the configuration of an MCP client, and say where it goes. Writes nothing.

    Example: stemmadb memory setup claude
    """
    made = {"command": "stemmadb", "args": ["mcp"], "env": {"AGENT_MEMORY_SECRET": "SECRET"}}
    configuration = {"mcpServers": {"memory": made}}
    shell.say(msgspec.json.encode(configuration).decode())
    if not shell.is_json:
        shell.warn(f"{_PLACES[client]} Replace SECRET by what 'stemmadb memory secret new agent' prints.")
    return {"configuration": configuration, "where": _PLACES[client]}


COMMANDS: Final = (decide, supersede, propose, accept, reject, audit, setup)
