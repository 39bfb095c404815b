"""A plan: tasks by id, and what follows from them. Status, children and progress of a parent are never stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from stemmadb.memory.rules.refusals import InvalidRequest
from stemmadb.memory.rules.tasks import ids

TaskRecord = Mapping[str, Any]
"""The fields of a task as its file has them."""


class TaskPlan:
    """Questions about a set of tasks. Each key is a valid id; parents may be missing."""

    def __init__(self, records: Mapping[str, TaskRecord]) -> None:
        self.records = dict(sorted(records.items(), key=lambda item: ids.order(item[0])))
        self._statuses: dict[str, str] = {}
        """Those that were asked for: each is worked out once."""
        self._children: dict[str, list[str]] = {}
        for id_ in self.records:
            parent = ids.parent_of(id_)
            if parent is not None:
                self._children.setdefault(parent, []).append(id_)

    def children(self, id_: str) -> Sequence[str]:
        """In the order of their ids."""
        return self._children.get(id_, ())

    def status(self, id_: str) -> str:
        """Its own, or what its children come to."""
        found = self._statuses.get(id_)
        if found is None:
            below, own = self.children(id_), self.records[id_].get("status")
            leaf = own if isinstance(own, str) else "pending"
            found = self._statuses[id_] = rolled_up([self.status(child) for child in below]) if below else leaf
        return found

    def leaves(self, id_: str) -> list[str]:
        below = self.children(id_)
        return [leaf for child in below for leaf in self.leaves(child)] if below else [id_]

    def progress(self, id_: str) -> dict[str, int]:
        """How many of the leaves below it are done."""
        leaves = self.leaves(id_)
        return {"completed": sum(self.status(leaf) == "done" for leaf in leaves), "total": len(leaves)}

    def open_dependencies(self, id_: str) -> list[str]:
        """What it waits for, as its list has it."""
        known = self.records
        return [one for one in dependencies_of(known[id_]) if one not in known or self.status(one) != "done"]

    def next_available(self) -> str | None:
        """The first pending task without children whose dependencies are all done."""
        for id_ in self.records:
            is_open = ids.type_of(id_) == "task" and not self.children(id_) and self.status(id_) == "pending"
            if is_open and not self.open_dependencies(id_):
                return id_
        return None

    def check_can_work(self, id_: str, verb: str) -> None:
        """`InvalidRequest` unless the task can be started or finished now."""
        if id_ not in self.records:
            raise InvalidRequest(f"There is no task {id_}.", field="id")
        if self.children(id_):
            raise InvalidRequest(f"{id_} is not a leaf: {verb} its children.", field="id")
        if self.status(id_) == "done":
            raise InvalidRequest(f"{id_} is done already.", field="id")
        blocking = self.open_dependencies(id_)
        if blocking:
            raise InvalidRequest(f"{id_} is blocked by {', '.join(blocking)}.", field="id")


def rolled_up(statuses: Sequence[str]) -> str:
    """What children come to: all done, some done, none done."""
    done = sum(status == "done" for status in statuses)
    if not done:
        return "pending"
    return "done" if done == len(statuses) else "in-progress"


def dependencies_of(record: TaskRecord) -> list[str]:
    """An empty list also for one that is no list of texts."""
    given = record.get("dependencies")
    return given if is_texts(given) else []


def is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def in_circles(dependencies: Mapping[str, Iterable[str]]) -> set[str]:
    """Tasks in a circle of dependencies, or on a way from one circle to another. One on itself does not count.

    Takes away tasks that wait for nothing that is left, and then those that nothing left waits for.
    """
    waits = {id_: {one for one in on if one != id_ and one in dependencies} for id_, on in dependencies.items()}
    wanted: dict[str, set[str]] = {id_: set() for id_ in waits}
    for id_, on in waits.items():
        for one in on:
            wanted[one].add(id_)
    left = set(waits)
    for outward, inward in ((waits, wanted), (wanted, waits)):
        count = {id_: len(outward[id_] & left) for id_ in left}
        free = [id_ for id_, number in count.items() if not number]
        while free:
            gone = free.pop()
            left.discard(gone)
            for other in inward[gone] & left:
                count[other] -= 1
                if not count[other]:
                    free.append(other)
    return left
