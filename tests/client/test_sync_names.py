"""The blocking client has every name of the other one, with the same parameters and a docstring, and blocks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import stemmadb.client
import stemmadb.client.sync
from stemmadb.client import database, space, status, transactions, watches
from stemmadb.client.reading import access, blobs, branches, moment, pages
from stemmadb.client.session import refused
from stemmadb.client.sync import blobs as sync_blobs
from stemmadb.client.sync import database as sync_database
from stemmadb.client.sync import reading, refusals, structure
from stemmadb.client.sync import space as sync_space
from stemmadb.client.sync import transactions as sync_transactions
from stemmadb.client.sync import watches as sync_watches

PAIRS: list[tuple[type, type]] = [
    (database.Database, sync_database.Database),
    (space.Space, sync_space.Space),
    (transactions.Transaction, sync_transactions.Transaction),
    (watches.Watch, sync_watches.Watch),
    (moment.Moment, reading.Moment),
    (pages.Listing, reading.Listing),
    (blobs.Blobs, sync_blobs.Blobs),
    (access.Acl, structure.Acl),
    (branches.Tags, structure.Tags),
    (refused.Refused, refusals.Refused),
    (status.PendingCommit, refusals.PendingCommit),
]
NOT_FOR_APPS = {
    transactions.Transaction: {"repeat", "learn"},
    refused.Refused: {"record", "writes", "current_entities"},
}
"""What the parts of the client use among themselves."""
WAITS: frozenset[tuple[str, str]] = frozenset(
    {
        ("Transaction", "journaled"),
        ("Transaction", "confirmed"),
        ("PendingCommit", "confirmed"),
        ("Space", "settled"),
        ("Watch", "next"),
    }
)
"""What takes a `timeout` here only: coroutines have `asyncio.timeout`."""
PROTOCOLS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__repr__": "__repr__",
}

pairs = pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda one: one.__name__)


def attributes(cls: type) -> set[str]:
    """The names of the class and those that its methods give values to."""
    made = re.findall(r"\bself\.(\w+)(?:: [^=\n]+)? = ", inspect.getsource(cls))
    return {name for name in {*made, *vars(cls)} if not name.startswith("_")}


def parameters(function: Callable[..., Any]) -> list[tuple[str, object, object]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


@pairs
def test_both_have_the_same_names(theirs: type, ours: type) -> None:
    assert attributes(ours) == attributes(theirs) - NOT_FOR_APPS.get(theirs, set())
    protocols = {PROTOCOLS[name] for name in vars(theirs) if name in PROTOCOLS}
    assert protocols <= set(vars(ours))


@pairs
def test_the_same_methods_take_the_same_parameters(theirs: type, ours: type) -> None:
    for name, method in vars(ours).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        taken = parameters(method)
        if (ours.__name__, name) in WAITS:
            assert taken.pop() == ("timeout", inspect.Parameter.KEYWORD_ONLY, None)
        assert taken == parameters(vars(theirs)[name]), f"{ours.__name__}.{name}"


@pairs
def test_everything_blocks_and_is_documented(theirs: type, ours: type) -> None:
    assert ours.__doc__
    for name, member in vars(ours).items():
        assert not inspect.iscoroutinefunction(member), name
        assert not inspect.isasyncgenfunction(member), name
        if not name.startswith("_"):
            assert inspect.getdoc(member), f"{ours.__name__}.{name} has no docstring"
            assert "await" not in (inspect.getdoc(member) or "").replace("nobody awaits", ""), name


@pairs
def test_properties_are_properties_on_both_sides(theirs: type, ours: type) -> None:
    for name, member in vars(theirs).items():
        if isinstance(member, property) and name not in NOT_FOR_APPS.get(theirs, set()) and not name.startswith("_"):
            assert isinstance(vars(ours)[name], property), name


def test_connect_takes_the_same_options() -> None:
    theirs = inspect.signature(database.connect).parameters
    assert set(sync_database.Options.__annotations__) == set(theirs) - {"url"}
    assert inspect.signature(sync_database.connect).parameters["url"].default == theirs["url"].default


def test_the_package_offers_the_same_names() -> None:
    assert set(stemmadb.client.sync.__all__) == set(stemmadb.client.__all__)
    for name in stemmadb.client.sync.__all__:
        assert hasattr(stemmadb.client.sync, name)
