"""The order of each list's versions, inferred from the longest read, and what is wrong without any cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from list_history import Append, Element, Key, Transaction
from violations import Violation


@dataclass(slots=True)
class ListOrders:
    """Who appended what, and in which order it came to be there. Transactions are known by their place."""

    transactions: Sequence[Transaction]
    writers: dict[tuple[Key, Element], int] = field(default_factory=dict)
    longest: dict[Key, tuple[Element, ...]] = field(default_factory=dict)
    reads: list[tuple[int, Key, tuple[Element, ...]]] = field(default_factory=list)
    """What transactions that happened read of others: own appends are taken off."""
    own: dict[tuple[int, Key], list[Element]] = field(default_factory=dict)
    """What each transaction appends to a list."""


def infer(transactions: Sequence[Transaction]) -> tuple[ListOrders, list[Violation]]:
    """The orders; and aborted, intermediate, internal and incompatible reads, doubled and lost appends."""
    orders = ListOrders(transactions)
    for place, transaction in enumerate(transactions):
        _take_appends(orders, place, transaction)
    violations = [
        violation
        for place, transaction in enumerate(transactions)
        if transaction.outcome == "ok"
        for violation in _take_reads(orders, place, transaction)
    ]
    violations.extend(_incompatible(orders))
    violations.extend(_bad_elements(orders))
    violations.extend(_lost(orders))
    return orders, violations


def _take_appends(orders: ListOrders, place: int, transaction: Transaction) -> None:
    for step in transaction.steps:
        if isinstance(step, Append):
            known = orders.writers.setdefault((step.key, step.element), place)
            assert known == place, (
                f"{step.element} is appended to {step.key} by two transactions: no test of anything"
            )
            orders.own.setdefault((place, step.key), []).append(step.element)


def _take_reads(orders: ListOrders, place: int, transaction: Transaction) -> Iterator[Violation]:
    """The reads of a transaction, without its own appends, which it must see at the end and nowhere else."""
    mine: dict[Key, tuple[Element, ...]] = {}
    seen: dict[Key, tuple[Element, ...]] = {}
    for step in transaction.steps:
        if isinstance(step, Append):
            mine[step.key] = (*mine.get(step.key, ()), step.element)
            continue
        own, foreign = mine.get(step.key, ()), step.elements
        if own:
            foreign, tail = step.elements[: -len(own)], step.elements[-len(own) :]
            if tail != own:
                yield Violation("internal", f"{transaction} does not see its own appends to {step.key}")
                continue
        if not set(orders.own.get((place, step.key), ())).isdisjoint(foreign):
            yield Violation("internal", f"{transaction} sees its own appends to {step.key} before it makes them")
            continue
        if seen.setdefault(step.key, foreign) != foreign:
            yield Violation("internal", f"{transaction} sees {step.key} change while it runs")
            continue
        orders.reads.append((place, step.key, foreign))
        if len(step.elements) > len(orders.longest.get(step.key, ())):
            orders.longest[step.key] = step.elements


def _incompatible(orders: ListOrders) -> Iterator[Violation]:
    """Every read is a beginning of the longest one, so that there is one order."""
    for place, key, elements in orders.reads:
        longest = orders.longest.get(key, ())
        if elements != longest[: len(elements)]:
            who = orders.transactions[place]
            yield Violation("incompatible order", f"{who} is no beginning of [{' '.join(map(str, longest[-8:]))}]")


def _bad_elements(orders: ListOrders) -> Iterator[Violation]:
    """Nothing is read twice, nothing that nobody appended, nothing of what failed (G1a)."""
    for key, longest in orders.longest.items():
        if len(set(longest)) != len(longest):
            twice = sorted({element for element in longest if longest.count(element) > 1})
            yield Violation("doubled append", f"{key} has {twice} more than once")
        for element in longest:
            writer = orders.writers.get((key, element))
            if writer is None:
                yield Violation("garbage read", f"{key} has {element}, which nobody appended")
            elif orders.transactions[writer].outcome == "failed":
                yield Violation("G1a", f"{key} has {element} of {orders.transactions[writer]}, which was refused")
    yield from _intermediate(orders)
    yield from _scattered(orders)


def _intermediate(orders: ListOrders) -> Iterator[Violation]:
    """No read ends between two appends of one transaction (G1b)."""
    for place, key, elements in orders.reads:
        writer = orders.writers.get((key, elements[-1])) if elements else None
        if writer is not None and writer != place and orders.own[writer, key][-1] != elements[-1]:
            yield Violation("G1b", f"{orders.transactions[place]} sees half of {orders.transactions[writer]}")


def _scattered(orders: ListOrders) -> Iterator[Violation]:
    """The appends of one transaction lie next to each other, in their order."""
    places = {key: {element: place for place, element in enumerate(found)} for key, found in orders.longest.items()}
    for (writer, key), own in orders.own.items():
        found = [places[key][element] for element in own if element in places.get(key, ())]
        if found and found != list(range(found[0], found[0] + len(found))):
            yield Violation("scattered", f"{orders.transactions[writer]} is in {key} at {found}")


def _lost(orders: ListOrders) -> Iterator[Violation]:
    """An append that was acknowledged before a read began is in that read, and so in the longest one."""
    latest: dict[Key, tuple[float, Transaction]] = {}
    for place, key, _ in orders.reads:
        transaction = orders.transactions[place]
        if transaction.began > latest.get(key, (-inf, transaction))[0]:
            latest[key] = (transaction.began, transaction)
    there = {key: set(longest) for key, longest in orders.longest.items()}
    for (key, element), writer in orders.writers.items():
        who = orders.transactions[writer]
        if key in latest and element not in there.get(key, ()) and who.known < latest[key][0]:
            yield Violation("lost append", f"{who} was acknowledged, and {latest[key][1]} lacks {key} {element}")
