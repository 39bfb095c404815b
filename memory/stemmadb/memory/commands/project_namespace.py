"""The namespace of a command: the one that was given, else that of the project in this directory."""

from __future__ import annotations

import click

from stemmadb.memory.interfaces.files.project import find_project, namespace_of
from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.rules.refusals import InvalidRequest


def project_namespace(given: str | None) -> str:
    """A usage error in / and at home, where there is no project."""
    try:
        return namespace_of(WorkingCopy(find_project(None)), given)
    except InvalidRequest as refused:
        raise click.UsageError(str(refused)) from None
