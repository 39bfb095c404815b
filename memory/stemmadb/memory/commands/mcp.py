"""`stemmadb mcp`: agent memory for an MCP client, on stdio."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click

from stemmadb.memory.commands.asking import asks, directory
from stemmadb.memory.commands.project_namespace import project_namespace
from stemmadb.memory.process import finding
from stemmadb.memory.process.finding import SECRET_VARIABLE
from stemmadb.memory.process.mcp_proxy import McpProxy, ProxyGreeting
from stemmadb.protocol.errors import Unavailable


@click.command()
@click.option("--ns", help="The namespace; default: that of the project in this directory.")
@click.option(
    "--role", type=click.Choice(["viewer", "agent", "admin"]), help="At most this role, whatever the secret gives."
)
@asks
def mcp(data: Path | None, space: str | None, ns: str | None, role: str | None) -> None:
    """Serve agent memory to an MCP client on stdin and stdout; starts a memory server if none runs.

    Example: stemmadb mcp --ns custom:acme.api
    """
    greeting = ProxyGreeting(os.environ.get(SECRET_VARIABLE), space, project_namespace(ns), role)
    find = partial(finding.find_or_start, directory(data))
    refused = McpProxy(find, greeting, sys.stdin.buffer, sys.stdout.buffer).run()
    if refused is not None:
        raise Unavailable(refused)
