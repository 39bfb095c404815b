"""`stemmadb verify`: is everything that is stored what was written?"""

from __future__ import annotations

from pathlib import Path

import click

from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.ids import Did
from stemmadb.server.commands.shared import Shell, data_option, error_of, reading, shown, space_option, telling
from stemmadb.server.keeping.backing_up import known_spaces
from stemmadb.server.keeping.progress import Tell
from stemmadb.server.keeping.verifying import verify_space
from stemmadb.server.storage.port import Storage


@click.command()
@data_option
@space_option
@click.pass_obj
def verify(shell: Shell, data: Path, space: Did | None) -> dict[str, object]:
    """Verify the whole history of each space: hashes, bodies, snapshots, blobs and files.

    Reads a directory that may be in use, a backup too. Exits with 1 and names the first place that does not hold.

    Example: stemmadb verify --data ./data
    """
    with telling(shell) as tell, reading(data) as storage:
        wanted = known_spaces(storage, None if space is None else [space])
        found = [_verified(shell, storage, one, tell) for one in wanted]
    if not found:
        shell.say(f"There are no spaces in {data}.")
    answer: dict[str, object] = {"spaces": found, "verified": all("error" not in one for one in found)}
    if broken := [one["error"] for one in found if "error" in one]:
        answer["error"] = broken[0]
    return answer


def _verified(shell: Shell, storage: Storage, space: Did, tell: Tell) -> dict[str, object]:
    try:
        done = verify_space(storage, space, tell=tell)
    except BrokenChain as broken:
        shell.say(f"{space}: BROKEN. {broken.message}")
        return {
            "space": space,
            "error": error_of(broken) | {"version": broken.facts["version"], "place": broken.facts["place"]},
        }
    shell.say(
        f"{space}: verified, version {done.version}, {done.facts} facts, {done.blobs} blobs, {shown(done.hash)}"
    )
    return {
        "space": space,
        "version": done.version,
        "hash": shown(done.hash),
        "facts": done.facts,
        "snapshots": done.snapshots,
        "blobs": done.blobs,
    }
