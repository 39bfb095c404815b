"""`stemmadb memory files ...`: a plan in `.claude/memory/` of a project, and its sync with the store."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from stemmadb.client import Space
from stemmadb.client.cli.connection import Target, run
from stemmadb.memory.commands.asking import asks
from stemmadb.memory.commands.asking import directory as data_directory
from stemmadb.memory.commands.server_plan import ServerPlan
from stemmadb.memory.interfaces.files import local_plan, project
from stemmadb.memory.interfaces.files.local_plan import LocalPlan
from stemmadb.memory.interfaces.files.local_state import look
from stemmadb.memory.interfaces.files.sync import SyncReport, sync
from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.operations.plan_store import PlanStore
from stemmadb.memory.process import finding
from stemmadb.memory.process.finding import SECRET_VARIABLE, MemoryClient
from stemmadb.memory.rules.refusals import Refusal
from stemmadb.memory.rules.tasks.file_text import write_json

Answer = Mapping[str, object]
directory_argument = click.argument(
    "directory", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path)
)
url_option = click.option(
    "--url", metavar="URL", help="Use the space --space of this StemmaDB server, with your own key."
)
namespace_option = click.option("--ns", help="The namespace of the plan; default: that of 'files init'.")


class StoreChoice(NamedTuple):
    """Where the plan is kept: by the memory server of a data directory, or in a space of a server at `url`."""

    data: Path | None
    space: str | None
    url: str | None


def says_refusals(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """What a rule refuses is the answer no, with the reason."""

    @wraps(function)
    def run_it(shell: Any, **given: Any) -> Answer:
        try:
            return function(shell, **given)
        except Refusal as refused:
            shell.warn(f"ERROR: {refused}")
            return no(str(refused))

    return run_it


def no(message: str, **more: object) -> Answer:
    return {**more, "error": {"code": "refused", "message": message}}


@click.group()
def files() -> None:
    """Task files: a plan in .claude/memory/ that scripts, people and agents share.

    Example: stemmadb memory files sync
    """


@files.command()
@directory_argument
@namespace_option
@click.option("--hooks", is_flag=True, help="Write the SubagentStop hook into .claude/settings.json.")
@click.option("--no-sync", is_flag=True, help="Only make the directory; no memory server is asked or started.")
@url_option
@asks
@click.pass_obj
@says_refusals
def init(  # one for each option
    shell: Any,
    directory: Path | None,
    ns: str | None,
    hooks: bool,
    no_sync: bool,
    url: str | None,
    data: Path | None,
    space: str | None,
) -> Answer:
    """Make .claude/memory in a project: the scripts, and the plan that the store has.

    Example: stemmadb memory files init
    """
    copy = WorkingCopy(project.find_project(directory, is_new=True))
    namespace = project.namespace_of(copy, ns)
    project.install(copy, namespace)
    shell.say(f"{copy.root} is ready; its namespace is {namespace}")
    answer: dict[str, object] = {"directory": str(copy.root), "namespace": namespace}
    if hooks:
        shell.say(f"The hook is in {project.add_hooks(copy.project)}")
    else:
        shell.say("To let agents finish their tasks, add this to .claude/settings.json, or run this with --hooks:")
        for line in write_json({"hooks": project.HOOKS}).splitlines():
            shell.say(line)
    if copy.read("task-index.json") is None and not any((copy.root / "tasks").iterdir()):
        LocalPlan(copy).rebuild_index()
    if no_sync:
        return answer
    return {**answer, **_synced(shell, StoreChoice(data, space, url), copy, namespace)}


@files.command("sync")
@directory_argument
@namespace_option
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--take-mine", multiple=True, metavar="PATH", help="Settle a conflict of this file for the directory.")
@click.option("--take-store", multiple=True, metavar="PATH", help="Settle a conflict of this file for the store.")
@url_option
@asks
@click.pass_obj
@says_refusals
def sync_(  # noqa: PLR0913, PLR0917  # one for each option
    shell: Any,
    directory: Path | None,
    ns: str | None,
    dry_run: bool,
    take_mine: tuple[str, ...],
    take_store: tuple[str, ...],
    url: str | None,
    data: Path | None,
    space: str | None,
) -> Answer:
    """Bring a project's plan and the store together. Exit code 1 if there is a conflict.

    Example: stemmadb memory files sync
    """
    copy = WorkingCopy(project.find_project(directory))
    namespace = project.namespace_of(copy, ns)
    options = {"is_dry": dry_run, "take_mine": take_mine, "take_store": take_store}
    return _synced(shell, StoreChoice(data, space, url), copy, namespace, **options)


def _synced(shell: Any, chosen: StoreChoice, copy: WorkingCopy, namespace: str, **options: Any) -> Answer:
    if chosen.url is not None:
        target = Target(url=chosen.url, space=chosen.space)

        async def work(space: Space) -> SyncReport:
            return await sync(copy, PlanStore(space, namespace, now=lambda: time.time_ns() // 1_000_000), **options)

        return _shown(shell, run(target, work, writes=True), is_dry=bool(options.get("is_dry")))
    note = finding.find_or_start(data_directory(chosen.data))
    with MemoryClient(note, secret=os.environ.get(SECRET_VARIABLE), space=chosen.space) as client:
        plan = ServerPlan(client, namespace)
        is_dry = bool(options.get("is_dry"))
        if not is_dry and plan.role == "viewer" and look(copy).changes:
            return _shown_as_viewer(shell, asyncio.run(sync(copy, plan, **{**options, "is_dry": True})))
        return _shown(shell, asyncio.run(sync(copy, plan, **options)), is_dry=is_dry)


def _shown_as_viewer(shell: Any, report: SyncReport) -> Answer:
    """Without a secret of an agent nothing is written."""
    answer = _shown(shell, report, is_dry=True)
    why = "Permission Denied: nothing was written; this is what would be done. Sync needs the secret of an agent: "
    why += f"run 'stemmadb memory secret new agent' and put it into {SECRET_VARIABLE}."
    shell.warn(f"ERROR: {why}")
    return {**answer, "error": {"code": "forbidden", "message": why}}


def _shown(shell: Any, report: SyncReport, *, is_dry: bool = False) -> Answer:
    for path in report.sent:
        shell.say(f"{'would send' if is_dry else 'sent     '} {path}")
    for path in report.received:
        shell.say(f"received  {path}")
    for path, why in report.conflicts.items():
        shell.say(f"CONFLICT  {path}: {why}. The store's version is in .stemma/conflicts/{path}.theirs")
    for path, why in report.refused.items():
        shell.say(f"REFUSED   {path}: {why}")
    for note in report.notes:
        shell.say(f"note      {note}")
    counted = f"{len(report.sent)} sent, {len(report.received)} received"
    shell.say(f"{len(report.sent)} would be sent" if is_dry else counted)
    answer = report._asdict()
    if report.is_clean:
        return answer
    return no(f"{len(report.conflicts)} conflicts and {len(report.refused)} refused files.", **answer)


@files.command()
@directory_argument
@click.pass_obj
@says_refusals
def validate(shell: Any, directory: Path | None) -> Answer:
    """Check every rule of the plan; exit code 1 and all findings if one is broken.

    Example: stemmadb memory files validate
    """
    found = LocalPlan(WorkingCopy(project.find_project(directory))).findings()
    for text in found:
        shell.warn(f"ERROR: {text}")
    shell.say(f"{len(found)} findings")
    return no(f"{len(found)} findings.", findings=found) if found else {"findings": []}


@files.command("rebuild-index")
@directory_argument
@click.pass_obj
@says_refusals
def rebuild_index(shell: Any, directory: Path | None) -> Answer:
    """Write task-index.json again from the task files.

    Example: stemmadb memory files rebuild-index
    """
    plan = LocalPlan(WorkingCopy(project.find_project(directory)))
    contradictions = plan.contradictions()
    for text in contradictions:
        shell.warn(f"ERROR: {text}")
    if contradictions:
        return no("The task files contradict each other; the index is as it was.", findings=contradictions)
    count = plan.rebuild_index()
    shell.say(f"The index has {count} tasks")
    return {"tasks": count}


@files.command("next")
@directory_argument
@click.pass_obj
@says_refusals
def next_(shell: Any, directory: Path | None) -> Answer:
    """Print the first task that can be started; exit code 1 if there is none.

    Example: stemmadb memory files next
    """
    found = LocalPlan(WorkingCopy(project.find_project(directory))).plan.next_available()
    if found is None:
        return no("No task can be started.", id=None)
    shell.say(found)
    return {"id": found}


@files.command()
@click.argument("id_", metavar="ID")
@directory_argument
@click.pass_obj
@says_refusals
def start(shell: Any, id_: str, directory: Path | None) -> Answer:
    """Set a task in progress. It must have no children and no open dependencies.

    Example: stemmadb memory files start 1.2.3
    """
    LocalPlan(WorkingCopy(project.find_project(directory))).start(id_)
    shell.say(f"{id_} is in progress")
    return {"id": id_, "status": "in-progress"}


@files.command()
@click.argument("id_", metavar="ID")
@directory_argument
@click.pass_obj
@says_refusals
def finish(_shell: Any, id_: str, directory: Path | None) -> Answer:
    """Run the allowed tests of a task, look for its deliverables, and set it done.

    Example: stemmadb memory files finish 1.2.3
    """
    if local_plan.finish(WorkingCopy(project.find_project(directory)), id_):
        return no(f"{id_} is not finished.", id=id_)
    return {"id": id_, "status": "done"}  # the script has said so


@files.command()
@click.argument("command")
@directory_argument
@click.pass_obj
@says_refusals
def allow(shell: Any, command: str, directory: Path | None) -> Answer:
    """Allow 'files finish' to run a command, by its exact text. This is for people, not for agents.

    Example: stemmadb memory files allow 'npm test'
    """
    is_new = local_plan.allow(WorkingCopy(project.find_project(directory)), command)
    shell.say(f"{'Allowed' if is_new else 'It was allowed already'}: {command}")
    return {"command": command, "is_new": is_new}
