"""Every peer that is installed does what the scenarios ask of it, and is gone afterwards."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from benchmarks.load.document import VALUE
from benchmarks.load.loop import Client, Watcher, closed_loop, fan_out
from benchmarks.peers import KINDS, process
from benchmarks.peers.port import Peer

from requirements import FINDERS, missing

WATCHERS, WRITES, FACTS = 3, 5, 20


@contextmanager
def peer_of(name: str) -> Iterator[Peer]:
    """The temporary directory of tests is closed to other users, and PostgreSQL runs as one."""
    kind = KINDS[name]
    if not kind.is_installed():
        why = f"the peer {name} is not installed"
        # The server that tests of the storage use may be a wheel; a peer is what the system has installed.
        missing(name, why) if name in FINDERS and name != "postgres" else pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="peer-") as directory, kind.served(Path(directory)) as peer:
        yield peer


def writes_on_what_it_wrote(peer: Peer, stack: ExitStack) -> None:
    writers = [peer.writer(f"own.{number}", VALUE) for number in range(2)]
    stack.callback(close, *writers)
    assert closed_loop(writers, pid=peer.pids, seconds=0, warm_up=WRITES).n == len(writers)
    with pytest.raises((AssertionError, ConnectionError)):
        peer.writer("own.0", VALUE)


def tells_each_watcher_of_each_write(peer: Peer, stack: ExitStack) -> None:
    writer = peer.watched_writer("watched", VALUE)
    stack.callback(close, writer)
    watchers = [peer.watcher("watched") for _ in range(WATCHERS)]
    stack.callback(close, *watchers)
    events, writes = fan_out(writer, watchers, pid=peer.pids, commits=WRITES, warm_up=1)
    assert (events.n, writes.n) == (WRITES * WATCHERS, WRITES)


def reads_what_was_at_old_versions(peer: Peer, stack: ExitStack) -> None:
    readers = [peer.past_reader("past", FACTS, random.Random(seed)) for seed in range(2)]
    stack.callback(close, *readers)
    assert closed_loop(readers, pid=peer.pids, seconds=0, warm_up=2 * FACTS).n == len(readers)


def close(*clients: Client | Watcher) -> None:
    for client in clients:
        client.link.sock.close()


@pytest.mark.parametrize("name", KINDS)
def test_a_peer_writes_tells_and_reads_the_past_and_is_gone_when_it_was_stopped(name: str) -> None:
    tasks: tuple[Callable[[Peer, ExitStack], None], ...] = (
        writes_on_what_it_wrote,
        tells_each_watcher_of_each_write,
        reads_what_was_at_old_versions,
    )
    with ExitStack() as still_connected:
        with peer_of(name) as peer:
            assert (peer.name, peer.durable) == (name, name != "nats")
            assert peer.version[0].isdigit()
            for task in tasks:
                task(peer, still_connected)
        assert not any(Path(f"/proc/{pid}").exists() for pid in peer.pids)


def test_peers_take_turns_in_a_fixed_order() -> None:
    assert list(KINDS) == ["etcd", "postgres", "redis", "nats", "sharedb"]


def test_an_install_that_fails_says_what_to_run_by_hand() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such package')"]
    with (
        pytest.raises(process.NotInstalled, match=r"(?s)npm install.*no such package"),
        process.installing("npm install"),
    ):
        process.quietly(command)


def test_a_program_that_is_missing_is_named_by_its_package() -> None:
    with pytest.raises(process.NotInstalled, match="apt-get install some-server"):
        process.require("no-program-has-this-name", "some-server")


def test_a_server_that_ends_before_it_is_ready_is_reported_with_its_last_words(tmp_path: Path) -> None:
    def refused() -> None:
        raise ConnectionRefusedError

    command = [sys.executable, "-c", "raise SystemExit('the disk is full')"]
    with pytest.raises(RuntimeError, match="the disk is full"), process.running(command, refused, directory=tmp_path):
        pass
