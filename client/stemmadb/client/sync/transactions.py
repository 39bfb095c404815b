"""Transactions that block: one block, one commit, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from stemmadb.client import transactions
from stemmadb.client.session.handle import Status
from stemmadb.client.sync.patience import within
from stemmadb.client.sync.portal import Portal
from stemmadb.client.sync.refusals import Refused
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value


class Transaction:
    """One commit in the making, and its handle once the block has ended.

        with space.transaction() as tx:
            todo = tx.get("urn:todo:1")
            tx.update("urn:todo:1", todo | {"done": True})
        tx.confirmed()

    Everything it reads is as of the moment it began. What it read or wrote must not have changed on the server when
    it is decided, unless it was written `blind`. If the block raises, nothing is written.
    """

    def __init__(self, transaction: transactions.Transaction, portal: Portal) -> None:
        self._transaction = transaction
        self._portal = portal

    def __enter__(self) -> Transaction:
        self._portal.call(self._transaction.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._portal.call(self._transaction.__aexit__, kind, error, traceback)

    # ------------------------------------------------------------ reading

    def get(self, id_: str, path: str = "", *, default: Value = None) -> Value:
        """The value, or the part of it at `path`, as this transaction sees it; `default` if there is none.

        It must not have changed when the commit is decided: name the path you use, and others may change the rest.
        """
        return self._portal.call(self._transaction.get, id_, path, default=default)

    def list(self, prefix: str = EVERY) -> dict[EntityId, Value]:
        """Everything under a prefix such as `urn:todo:*`; nothing may be added there before the commit is decided."""
        return self._portal.call(self._transaction.list, prefix)

    # ------------------------------------------------------------ writing

    def set(self, id_: str, value: object, *, blind: bool = False) -> None:
        """Gives it this value, whether it is there or not. `blind`: whatever others did meanwhile."""
        self._portal.touch(self._transaction.set, id_, value, blind=blind)

    def create(self, id_: str, value: object) -> None:
        """The same for one that must not be there yet; `AlreadyExists`, here or when the block ends."""
        self._portal.touch(self._transaction.create, id_, value)

    def patch(self, id_: str, operations: Sequence[Mapping[str, Any]], *, blind: bool = False) -> None:
        """Changes parts of it: JSON Patch (RFC 6902), with `splice` and `increment`."""
        self._portal.touch(self._transaction.patch, id_, operations, blind=blind)

    def update(self, id_: str, value: object) -> None:
        """Gives one that is there this value, and writes only what differs."""
        self._portal.touch(self._transaction.update, id_, value)

    def increment(self, id_: str, path: str, by: int | float = 1, *, blind: bool = False) -> None:
        """Adds to a number; increments of others never conflict with it."""
        self._portal.touch(self._transaction.increment, id_, path, by, blind=blind)

    def delete(self, id_: str, *, blind: bool = False) -> None:
        """Takes it away."""
        self._portal.touch(self._transaction.delete, id_, blind=blind)

    # ------------------------------------------------------------ what became of it

    @property
    def status(self) -> Status:
        """`pending`, `confirmed` or `rejected`; one that wrote nothing is confirmed."""
        return self._transaction.status

    @property
    def version(self) -> Version | None:
        """The version it took, once it is confirmed; for one that wrote nothing the version it read."""
        return self._transaction.version

    @property
    def rejection(self) -> Refused | None:
        """Why it was rejected, because of which commit, the current values, and a way to try again."""
        refused = self._transaction.rejection
        return None if refused is None else Refused(refused, self._portal)

    def applied(self) -> None:
        """Returns at once after the block: the view has it."""
        self._portal.call(self._transaction.applied)

    def journaled(self, *, timeout: float | None = None) -> None:
        """Returns once the journal has it, so that it survives a crash of the app."""
        self._portal.call(lambda: within(timeout, self._transaction.journaled()))

    def confirmed(self, *, timeout: float | None = None) -> Version:
        """Its version, once it is durable on the server; raises `Conflict`, or whatever it was refused with.

        `TimedOut` after `timeout` seconds: it is still pending then, and may be waited for again.
        """
        return self._portal.call(lambda: within(timeout, self._transaction.confirmed()))

    def __repr__(self) -> str:
        return repr(self._transaction)
