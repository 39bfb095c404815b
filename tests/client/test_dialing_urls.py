"""Addresses of servers: what is taken, what is refused, and what a person is told to write instead."""

from __future__ import annotations

import pytest

from stemmadb.client.dialing.urls import is_secure, server_url, space_url
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.ids import Did


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("ws://127.0.0.1:8420", "ws://127.0.0.1:8420"),
        ("ws://127.0.0.1:8420/", "ws://127.0.0.1:8420"),
        ("WS://LocalHost:80", "ws://localhost"),
        ("wss://db.example:443//", "wss://db.example"),
        ("wss://db.example:80", "wss://db.example:80"),
        ("wss://db.example/stemma/", "wss://db.example/stemma"),
        ("ws://[::1]:8420", "ws://[::1]:8420"),
        ("ws://[::1]", "ws://[::1]"),
        ("wss://bücher.example", "wss://xn--bcher-kva.example"),
    ],
)
def test_an_address_is_written_in_one_way(given: str, taken: str) -> None:
    assert server_url(given) == taken
    assert server_url(taken) == taken


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("http://127.0.0.1:8420", "Write 'ws://' for 'http://'"),
        ("https://db.example", "Write 'wss://' for 'https://'"),
        ("127.0.0.1:8420", "Write 'ws://127.0.0.1:8420'"),
        ("localhost:8420", "Write 'ws://localhost:8420'"),
        ("//db.example", "Write 'ws://db.example'"),
        ("", "Write it as 'ws://127.0.0.1:8420'"),
        ("ftp://db.example", "does not begin with ws:// or wss://"),
        ("ws:db.example", "Write it as 'ws://127.0.0.1:8420'"),
        ("ws:///path", "there is no host in it"),
        ("ws://:8420", "there is no host in it"),
        ("ws://me:secret@db.example", "an identity signs instead"),
        ("ws://me@db.example", "an identity signs instead"),
        ("ws://db.example/?space=1", "nothing may follow its path"),
        ("ws://db.example/#todo", "nothing may follow its path"),
        ("ws://db.example:0", "a port is a number from 1 to 65535"),
        ("ws://db.example:65536", "a port is a number from 1 to 65535"),
        ("ws://db.example:http", "a port is a number from 1 to 65535"),
        ("ws://db.exa mple", "spaces or control characters"),
        ("ws://db.example\r\nHost: x", "spaces or control characters"),
        ("ws://[::1:8420", "its host cannot be read"),
        ("ws://" + "x" * 64 + ".example", "cannot be the name of a host"),
        ("ws://db..example", "cannot be the name of a host"),
        ("ws://\u00b8", "cannot be the name of a host"),
    ],
)
def test_what_is_no_address_is_refused_with_a_hint(given: str, hint: str) -> None:
    with pytest.raises(Malformed) as refused:
        server_url(given)
    assert hint in refused.value.message
    assert repr(given) in refused.value.message
    assert refused.value.message.endswith(".")
    assert not refused.value.retriable


@pytest.mark.rule("WIRE-1")
def test_a_space_has_its_own_path_behind_that_of_the_server() -> None:
    space = Did("did:key:z6MkitBGhCzSFNVB3TDaMWBTrCJhm9SQPjw2oZDSMQJt52FL")
    assert space_url(server_url("ws://h:1"), space) == f"ws://h:1/v1/spaces/{space}"
    assert space_url(server_url("wss://h/stemma"), space) == f"wss://h/stemma/v1/spaces/{space}"


def test_only_wss_is_secure() -> None:
    assert is_secure(server_url("wss://h"))
    assert not is_secure(server_url("ws://wss"))
