"""All kinds of checks, one entry each."""

from __future__ import annotations

from typing import Final

from scripts.soaking import client_checks, core_checks, http_checks, store_checks, system_checks, typescript_checks
from scripts.soaking.kinds import Goal, Kind, Kinds, reported
from simulation.run import run as simulate

import faults_clients
import faults_clock
import faults_cycles
from nodes_simulation import simulate_nodes

CYCLE_SECONDS_MAX: Final = 1_800.0
"""A cycle with thousands of commits or many starts of a server takes minutes on a busy machine."""

ALL: Final = (
    Kind(
        "admission",
        "Decisions are those of the naive oracle, and values are equal",
        "2,000 schedules",
        Goal(200_000, "runs"),
        core_checks.admission,
    ),
    Kind("watches", "A step of a watch equals the query run afresh", "2,500 schedules", None, core_checks.watches),
    Kind(
        "merges",
        "A merge is the merge by definition, whatever forks and merges came before",
        "100 histories",
        None,
        core_checks.merges,
    ),
    Kind(
        "compacted_merges",
        "A merge decides as it would without the compactions and erasures before it",
        "120 histories",
        None,
        store_checks.compacted_merges,
    ),
    Kind(
        "twin_merges",
        "Two spaces, of which one is compacted, answer every merge and revert alike, whatever the documents hold",
        "24 histories",
        None,
        store_checks.twin_merges,
    ),
    Kind("ancestors", "Merge bases are those that brute force finds", "200 graphs", None, core_checks.ancestors),
    Kind(
        "bodies",
        "The fast and the exact reader of bodies agree on random bytes",
        "800 bodies",
        Goal(3_600, "seconds"),
        core_checks.bodies,
    ),
    Kind(
        "messages",
        "A changed message is read or refused with a typed error, in both encodings",
        "every message, changed",
        Goal(3_600, "seconds"),
        core_checks.messages,
    ),
    Kind(
        "engine",
        "The engine holds what the model holds, on memory and on SQLite",
        "154 x 50 steps, 24 of them over sockets",
        Goal(20_000, "runs"),
        store_checks.engine,
    ),
    Kind(
        "kills",
        "What a process acknowledged before kill -9 is there after it, once",
        "10 kills",
        Goal(2_000, "faults"),
        store_checks.kills,
    ),
    Kind(
        "power",
        "What was acknowledged is in every image that a power failure may leave",
        "1,200 images",
        Goal(200_000, "faults"),
        store_checks.power,
    ),
    Kind(
        "fsync_errors",
        "A disk that fails at any operation costs no acknowledged commit and makes none twice",
        "every operation",
        None,
        store_checks.fsync_errors,
    ),
    Kind(
        "disk_full",
        "A full disk stops writes and not reads, until there is room",
        "16 sizes, and a real small disk",
        None,
        store_checks.disk_full,
    ),
    Kind(
        "service",
        "What a watcher holds equals the query run afresh, and every commit is decided once",
        "38 lives",
        None,
        client_checks.service,
    ),
    Kind("nursery", "What a client shows is what the naive nursery shows", "200 lives", None, client_checks.nursery),
    Kind(
        "typescript",
        "The TypeScript client decides and shows what the Python client does",
        "10,000 cases",
        None,
        typescript_checks.differential,
    ),
    Kind(
        "typescript_storm",
        "Apps of the TypeScript client in node are told the truth while their server and the line to it fail",
        "in the soak only",
        None,
        typescript_checks.storm,
        CYCLE_SECONDS_MAX,
    ),
    Kind(
        "client",
        "In longer runs of the simulation every commit of an app is decided once, and every view converges",
        "in the soak only",
        None,
        client_checks.client,
    ),
    Kind(
        "simulation",
        "While everything fails all that is told is durable; once it heals all is decided and all agree",
        "200 seeds",
        Goal(50_000, "runs"),
        reported(simulate),
    ),
    Kind(
        "nodes",
        "Nodes that claim and serve spaces of one database decide every commit once, and tell of no old state",
        "16 seeds",
        Goal(50_000, "runs"),
        reported(simulate_nodes),
    ),
    Kind(
        "list_append",
        "Histories of lists over real sockets, with faults on, have no cycle",
        "4,500 commits",
        Goal(1_000_000, "operations"),
        reported(faults_cycles.list_append),
        CYCLE_SECONDS_MAX,
    ),
    Kind(
        "server_kills",
        "A real server killed under load loses nothing acknowledged, and its clients converge",
        "8 kills",
        Goal(2_000, "faults"),
        reported(faults_cycles.server_kills),
        CYCLE_SECONDS_MAX,
    ),
    Kind(
        "worker_kills",
        "Workers killed under load lose nothing acknowledged, and their clients converge",
        "3 kills",
        None,
        reported(faults_cycles.worker_kills),
        CYCLE_SECONDS_MAX,
    ),
    Kind(
        "worker_changes",
        "A server that is killed and started with another number of workers loses nothing acknowledged",
        "3 changes",
        None,
        reported(faults_cycles.worker_changes),
        CYCLE_SECONDS_MAX,
    ),
    Kind(
        "system_workers",
        "The system tests hold against a server with three workers, too",
        "29 tests",
        None,
        system_checks.system_with_workers,
        CYCLE_SECONDS_MAX,
    ),
    Kind(
        "client_kills",
        "A real app killed at any moment loses nothing that it called kept",
        "8 kills",
        None,
        reported(faults_clients.client_kills),
    ),
    Kind(
        "pauses",
        "No read after a pause of the server is older than what was acknowledged",
        "8 pauses",
        None,
        reported(faults_cycles.pauses),
    ),
    Kind(
        "torn_frames",
        "A line that tears, delays, holds and cuts at any byte changes nothing",
        "16 faults",
        None,
        reported(faults_cycles.torn_frames),
    ),
    Kind(
        "clock_jumps",
        "A clock that jumps back and ahead changes no order",
        "20 jumps",
        None,
        reported(faults_clock.clock_jumps),
    ),
    Kind(
        "memory",
        "Every rule of agent memory holds after faults, and a call that is sent again is done once",
        "4 storms",
        Goal(200, "runs"),
        client_checks.memory,
    ),
    Kind(
        "http_crowd",
        "10,000 HTTP connections for streams are bounded, and a client beside them goes on writing",
        "300 connections",
        None,
        http_checks.http_crowd,
    ),
    Kind(
        "http_streams",
        "After each of 200 cuts a stream's map is the query, over erasures, compactions, restores and moving links",
        "200 cuts, 5 restores",
        None,
        http_checks.http_streams,
    ),
    Kind(
        "http_blobs",
        "A blob of 1 GiB comes back whole and in ranges over HTTP, in bounded memory",
        "in the soak only",
        None,
        http_checks.http_blobs,
    ),
    Kind(
        "fuzz",
        "Changed inputs of every kind cost a typed error and nothing else",
        "20 s",
        Goal(7_200, "seconds"),
        core_checks.fuzz,
    ),
)


def kinds() -> Kinds:
    """The kinds by name."""
    return {kind.name: kind for kind in ALL}
