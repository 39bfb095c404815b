"""Commands about the console itself: status, whoami, pending, rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.safe_text import compact, counted, note_text
from stemmadb.client.cli.shapes import Column, TextCell, TextLine, TextLines, TextTable, line
from stemmadb.client.console.reads import note_line
from stemmadb.client.console.replies import Arguments, ConsoleCommand, ConsoleReply, said, whole_number
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.session.refused import Refused
from stemmadb.protocol.errors import NotFound
from stemmadb.protocol.model.commit.stale_reads import StaleRead


async def status(state: ConsoleState, given: Arguments) -> ConsoleReply:  # noqa: ARG001
    now = state.space.status()
    waiting = "" if now.oldest_pending_seconds is None else f", the oldest for {now.oldest_pending_seconds:.1f} s"
    rows = [
        ("server", clean(state.url)),
        ("space", f"{clean(state.name)} ({state.space.did})" if state.name != state.space.did else state.space.did),
        ("place", state.place),
        ("connection", now.connection if now.error is None else f"{now.connection}: {now.error.message}"),
        ("head", f"{now.server_head}" if now.server_head else "not heard of yet"),
        ("pending", f"{counted(now.pending, 'write')}{waiting}"),
        ("rejected", counted(now.rejected, "write")),
        ("writes", "allowed" if state.may_write else "off; start with --write"),
    ]
    data = {
        "url": state.url,
        "space": state.space.did,
        "connection": now.connection,
        "head": now.server_head,
        "pending": now.pending,
        "rejected": now.rejected,
        "may_write": state.may_write,
    }
    return ConsoleReply(shapes=(_pairs(rows),), data=data)


async def whoami(state: ConsoleState, given: Arguments) -> ConsoleReply:  # noqa: ARG001
    rights = (await state.space.acl.get()).mine
    prefixes = "every id" if rights.prefixes == ("",) else ", ".join(f"{one}*" for one in rights.prefixes) or "no id"
    name = state.viewer.names.get(state.me, "")
    rows = [("identity", name), ("did", state.me), ("role", rights.role), ("for", clean(prefixes))]
    data = {"identity": name or None, "did": state.me, "role": rights.role, "prefixes": rights.prefixes}
    return ConsoleReply(shapes=(_pairs([row for row in rows if row[1]]),), data=data)


def _pairs(rows: Sequence[tuple[str, str]]) -> TextLines:
    width = max(len(name) for name, _ in rows) + 2
    return TextLines([line(TextCell(f"{name:<{width}}", "bold"), text) for name, text in rows])


async def pending(state: ConsoleState, given: Arguments) -> ConsoleReply:  # noqa: ARG001
    found = state.space.pending()
    rows = [
        (
            f"{one.age_seconds:.1f} s",
            clean(one.branch),
            clean(", ".join(one.ids)),
            "waits" if one.applies else "does not apply",
            note_text(one.note),
        )
        for one in found
    ]
    columns = (
        Column("AGE", whole=True),
        Column("BRANCH"),
        Column("IDS"),
        Column("STATE", whole=True),
        Column("NOTE"),
    )
    shape = TextTable(columns, rows) if found else note_line("Nothing is pending.")
    data = [{"branch": one.branch, "ids": one.ids, "age_seconds": one.age_seconds} for one in found]
    return ConsoleReply(shapes=(shape,), data={"pending": data})


async def rejected(state: ConsoleState, given: Arguments) -> ConsoleReply:
    if given.words:
        return await _decide(state, given)
    found = state.space.rejected()
    lines = [part for number, one in enumerate(found, 1) for part in _refused(number, one, state)]
    shape = TextLines(lines) if found else note_line("Nothing was rejected.")
    data = [
        {"code": one.code, "message": one.message, "branch": one.branch, "operations": one.operations}
        for one in found
    ]
    return ConsoleReply(shapes=(shape,), data={"rejected": data})


def _refused(number: int, one: Refused, state: ConsoleState) -> list[TextLine]:
    """Why, what it wanted to write, and who was faster."""
    head = line(
        TextCell(f"{number}  {one.code}", "bold red"), "  ", state.viewer.time(one.time), f"  {clean(one.branch)}"
    )
    wanted = [line("   wanted  ", TextCell(compact(each), is_json=True), cut=True) for each in one.operations]
    return [head, line(f"   {clean(one.message)}"), *wanted, *(_stale(read, state) for read in one.stale)]


def _stale(read: StaleRead, state: ConsoleState) -> TextLine:
    what = f"{read.prefix}*" if read.prefix is not None else f"{read.id} {read.path}".strip()
    who = "" if read.author is None else f" by {state.viewer.person(read.author).text}"
    return line(f"   stale   {clean(what)}, read at {read.read}, written at {read.winner}{who}")


async def _decide(state: ConsoleState, given: Arguments) -> ConsoleReply:
    """Tries a rejected write again on the current values, or lets it go."""
    state.check_writing()
    verb = given.text(0)
    if verb not in ("retry", "drop") or len(given.words) != 2:
        raise REJECTED.misused("takes 'retry' or 'drop' and a number from the list")
    number, found = whole_number(given.text(1), "number"), state.space.rejected()
    if not 1 <= number <= len(found):
        raise NotFound(f"There is no rejected write {number}. See 'rejected'.", id=str(number), branch=state.branch)
    if verb == "drop":
        found[number - 1].drop()
        return said("Dropped. It will not be written.")
    again = await found[number - 1].retry()
    version = await again.confirmed()
    return said(f"Written as version {version}.", version=version)


STATUS: Final = ConsoleCommand(
    name="status",
    usage="status",
    says="Shows the connection, the head, and undecided writes.",
    example="status",
    run=status,
    most=0,
)
WHOAMI: Final = ConsoleCommand(
    name="whoami",
    usage="whoami",
    says="Shows who you are here and what you may do.",
    example="whoami",
    run=whoami,
    most=0,
)
PENDING: Final = ConsoleCommand(
    name="pending",
    usage="pending",
    says="Lists your writes that the server has not decided yet.",
    example="pending",
    run=pending,
    most=0,
)
REJECTED: Final = ConsoleCommand(
    name="rejected",
    usage="rejected | rejected retry N | rejected drop N",
    says="Lists your rejected writes, and why; with --write retries or drops one.",
    example="rejected",
    run=rejected,
    most=2,
)
COMMANDS: Final = (STATUS, WHOAMI, PENDING, REJECTED)
