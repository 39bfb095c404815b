"""Nodes on PostgreSQL: one statement for many spaces, the wrong node, SQLite, ShareDB, an open export, ends of nodes.

PostgreSQL, nodes and load share the cores of one machine, with syncs on. `postgres_us` is PostgreSQL's part of the
CPU of a commit, `node_us` that of the nodes.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.harness import rows, systems
from benchmarks.harness.plan import Plan
from benchmarks.harness.rows import Key, Row
from benchmarks.harness.turns import Turns
from benchmarks.load.document import DOCUMENT, VALUE
from benchmarks.load.loop import closed_loop, closing
from benchmarks.load.processes import DIRECTORY
from benchmarks.ours import database, outages, service
from benchmarks.ours.database import Database, Fleet
from benchmarks.ours.service import Server
from benchmarks.ours.sessions import Space
from benchmarks.ours.writers import MakingWriter, Rota, Writer
from benchmarks.peers import sharedb

NAME = "nodes"
TITLE = (
    "nodes on PostgreSQL beside a transaction for each space, SQLite and ShareDB; the wrong node, an export, failures"
)
CLIENTS, SPACES = 256, 1_000
MANY, EACH, TWO = f"{NAME}: many spaces", f"{NAME}: many spaces, a transaction each", f"{NAME}: many spaces, 2 nodes"
ONE, ON_SQLITE = f"{NAME}: one space", f"{NAME}: one space, SQLite"
WRONG = f"{NAME}: one space, all at the wrong node"
ALONE, EXPORTED = f"{NAME}: large space", f"{NAME}: large space, an open export"
KILLED, TERMINATED, PROMOTED = (f"{NAME}: after {what}" for what in ("kill -9", "SIGTERM", "a promotion"))
WARM_UP = 8
"""Commits of each client that are not counted: every session has sent one by then, and statements are prepared."""
WRITERS = 32
"""Clients of the large space."""
EXPORT_BYTES_PER_SECOND = 4e6
CORES_FOR_TWO = 4
TOO_FEW_CORES = "not measured: needs more cores"


def run(plan: Plan) -> list[Row]:
    if (why := database.why_not()) is not None:
        print(f"   without PostgreSQL: {why}", file=sys.stderr, flush=True)
        return []
    turns = Turns()
    with database.running() as server:
        systems.VERSIONS[rows.POSTGRES] = server.version
        _many(turns, plan, server)
        _one(turns, plan, server)
        _large(turns, plan, server)
        _ends(turns, server, count=plan.pick(quick=1, usual=5))
    _promotions(turns, count=plan.pick(quick=1, usual=3))
    return turns.rows()


# ------------------------------------------------------------ many spaces


def _many(turns: Turns, plan: Plan, server: Database) -> None:
    """256 clients go round 1,000 spaces; every other commit makes a new entity."""
    clients, spaces = plan.pick(quick=64, usual=CLIENTS), plan.pick(quick=100, usual=SPACES)
    chosen = {MANY: (1, service.COMMAND), EACH: (1, database.A_TRANSACTION_EACH)}
    if (os.cpu_count() or 1) >= CORES_FOR_TWO:
        chosen[TWO] = (2, service.COMMAND)
    else:
        turns.add(Key(TWO, rows.OURS, clients), {}, n=0)
        turns.note(Key(TWO, rows.OURS, clients), figure=TOO_FEW_CORES)
    with ExitStack() as stack:
        crowds: dict[str, tuple[Fleet, list[Space]]] = {}
        for number, (name, (nodes, program)) in enumerate(chosen.items()):
            fleet = stack.enter_context(database.fleet(server.made(f"many_{number}"), nodes, program))
            made = [Space.made(fleet.nodes[place % nodes].port) for place in range(spaces)]
            crowds[name] = fleet, made
        for turn in range(plan.reps):
            for name, (fleet, made) in crowds.items():
                writers = [space.of(MakingWriter).begin(f"urn:todo:{turn}") for space in made]
                with closing(writers):
                    _turn(turns, Key(name, rows.OURS, clients), fleet.nodes, server, writers, plan.seconds, WARM_UP)


# ------------------------------------------------------------ one space


def _one(turns: Turns, plan: Plan, server: Database) -> None:
    """At its owner, at the other node, on SQLite, and ShareDB with a document for each client."""
    clients = plan.pick(quick=64, usual=CLIENTS)
    with database.fleet(server.made("one"), 2) as fleet, service.served() as sqlite, _sharedb(server) as peer:
        space, other = Space.made(fleet.nodes[0].port), Space.made(sqlite.port)
        for turn in range(plan.reps):
            places = list(zip((ONE, WRONG), fleet.nodes, strict=True))
            for name, node in places if turn % 2 else reversed(places):  # so that neither is always the first
                space.at(node.port)
                with _writing(space, clients) as writers:
                    _turn(turns, Key(name, rows.OURS, clients), fleet.nodes, server, writers, plan.seconds, WARM_UP)
            with _writing(other, clients) as writers:
                turns.add_figures(
                    Key(ON_SQLITE, rows.OURS, clients), closed_loop(writers, pid=sqlite.pid, seconds=plan.seconds)
                )
            if peer is not None:
                theirs = [peer.writer(f"todo.{turn}.{number}", VALUE) for number in range(clients)]
                with closing(theirs):
                    figures = closed_loop(theirs, pid=peer.pids, seconds=plan.seconds)
                turns.add_figures(Key(ONE, rows.SHAREDB, clients), figures)


@contextmanager
def _sharedb(server: Database) -> Iterator[sharedb.ShareDb | None]:
    """In a database of the same PostgreSQL; none if it cannot be installed."""
    if not systems.available([rows.SHAREDB]):
        yield None
        return
    made = server.made("sharedb").rpartition("/")[2]
    with (
        tempfile.TemporaryDirectory(prefix="sharedb-bench-", dir=DIRECTORY) as name,
        sharedb.served_on(Path(name), server.port, (server.pid,), database.USER, made) as peer,
    ):
        systems.VERSIONS[rows.SHAREDB] = peer.version
        yield peer


@contextmanager
def _writing(space: Space, count: int) -> Iterator[list[Writer]]:
    writers = [space.of(Writer).begin(f"urn:todo:{number}") for number in range(count)]
    with closing(writers):
        yield writers


# ------------------------------------------------------------ an export, and what fails


def _large(turns: Turns, plan: Plan, server: Database) -> None:
    """Commits on a large space, and the same while it is exported."""
    clients, entities = plan.pick(quick=8, usual=WRITERS), plan.pick(quick=20_000, usual=200_000)
    with database.fleet(server.made("large")) as fleet:
        space = Space.made(fleet.nodes[0].port)
        space.fill({f"urn:item:{number:07}": DOCUMENT for number in range(entities)})
        for _ in range(plan.reps):
            with _writing(space, clients) as writers:
                key = Key(ALONE, rows.OURS, clients)
                _turn(turns, key, fleet.nodes, server, writers, plan.seconds, WARM_UP)
                with outages.exported(fleet.url, space, bytes_per_second=EXPORT_BYTES_PER_SECOND) as read:
                    key = Key(EXPORTED, rows.OURS, clients)
                    _turn(turns, key, fleet.nodes, server, writers, plan.seconds, WARM_UP)
            turns.note(key, exported_bytes=sum(read), exports=len(read))


def _ends(turns: Turns, server: Database, count: int) -> None:
    with database.fleet(server.made("ends"), 2) as fleet:
        for name, how in ((KILLED, signal.SIGKILL), (TERMINATED, signal.SIGTERM)):
            for _ in range(count):
                _add_time(turns, name, outages.after_end(fleet, how))


def _promotions(turns: Turns, count: int) -> None:
    for _ in range(count):
        with database.pair() as pair, database.fleet(pair.url, 2) as fleet:
            _add_time(turns, PROMOTED, outages.after_promotion(fleet, pair))


# ------------------------------------------------------------ rows


def _turn(
    turns: Turns,
    key: Key,
    nodes: Sequence[Server],
    server: Database,
    writers: Sequence[Writer],
    seconds: float,
    warm_up: int = 3,
) -> None:
    """So many clients as the key says write, and nodes and PostgreSQL are looked at apart."""
    clients = [Rota(writers[number :: key.clients]) for number in range(key.clients)]
    further = [link for client in clients for link in client.links[1:]]
    pids = (server.pid, *(node.pid for node in nodes))
    figures = closed_loop(clients, pid=pids, seconds=seconds, bystanders=further, warm_up=warm_up)
    postgres, *others = figures.cpu_us_each
    turns.add_figures(key, figures, postgres_us=postgres, node_us=sum(others))


def _add_time(turns: Turns, name: str, seconds: float) -> None:
    turns.add(Key(name, rows.OURS, 1), {"seconds": seconds}, n=1)
