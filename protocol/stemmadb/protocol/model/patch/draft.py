"""A value under change: copy-on-write along the path, each container copied at most once (PATCH-2).

The draft owns the containers it has copied and changes those in place, so that a thousand operations on one wide
array copy it once. A container is owned only if all above it are: what is not owned, such as the old value and the
values that operations bring, is never changed, and a container that gets a second place stops being owned.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from stemmadb.protocol.model.patch.meter import Meter
from stemmadb.protocol.model.patch.operation import Fault, Tokens
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.json_values import Value

_BEHIND: Final = "-"  # the place behind an array's last element (RFC 6901)
Container: TypeAlias = list[Value] | dict[str, Value]
Owned: TypeAlias = dict[int, Container]
"""Containers by identity; holding one keeps its id from being reused."""


class PatchDraft:
    """Starts as the value given; `root` is the value so far. A draft that raised is to be dropped."""

    __slots__ = ("_meter", "_owned", "root")

    def __init__(self, root: Value, meter: Meter | None = None, owned: Owned | None = None) -> None:
        self.root = root
        self._meter = meter
        self._owned: Owned = {} if owned is None else owned

    # ------------------------------------------------------------ looking

    def find(self, tokens: Tokens) -> Value:
        """The value at a place."""
        node: Any = self.root
        for token in tokens:
            try:
                node = node[token if type(node) is dict else position(node, token)]
            except KeyError:
                raise nothing_at(tokens) from None
        return node  # type: ignore[no-any-return]

    # ------------------------------------------------------------ changing

    def put(self, tokens: Tokens, value: Value) -> None:
        """`add`: into an object under the key, into an array before the index, or instead of the whole."""
        if not tokens:
            return self._put_root(value)
        holder, last = self._own(tokens[:-1]), tokens[-1]
        if isinstance(holder, list):
            return self._splice(holder, insertion(holder, last), 0, [value], len(tokens))
        if last in holder:
            return self._swap(holder, last, value, len(tokens))
        if self._meter is not None:
            self._meter.grow(len(holder), last, value, len(tokens))
        holder[last] = value
        return None

    def replace(self, tokens: Tokens, value: Value) -> None:
        """Another value at a place that has one."""
        if not tokens:
            return self._put_root(value)
        holder: Any = self._own(tokens[:-1])
        last = tokens[-1]
        if type(holder) is not dict:
            return self._swap(holder, position(holder, last), value, len(tokens))
        if last not in holder:
            raise nothing_at(tokens)
        return self._swap(holder, last, value, len(tokens))

    def remove(self, tokens: Tokens) -> None:
        """Takes what is at a place out of what holds it."""
        if not tokens:
            raise Fault("the whole value cannot be removed; delete the entity instead")
        holder, last = self._own(tokens[:-1]), tokens[-1]
        if isinstance(holder, list):
            return self._splice(holder, position(holder, last), 1, [], len(tokens))
        if last not in holder:
            raise nothing_at(tokens)
        if self._meter is not None:
            self._meter.shrink(len(holder), last, holder[last])
        del holder[last]
        return None

    def splice(self, tokens: Tokens, index: int, remove: int, added: list[Value]) -> None:
        """Cuts `remove` elements out of an array at `index` and puts others there."""
        array = self._own(tokens)
        if type(array) is not list:
            raise Fault(f"{_shown(tokens)} is not an array")
        if index + remove > len(array):
            raise Fault(f"the array at {_shown(tokens)} has only {len(array)} elements")
        self._splice(array, index, remove, added, len(tokens) + 1)

    def share(self, value: Value) -> Value:
        """The same value, safe to be held in a second place: the draft will copy it before it changes it."""
        owned, todo = self._owned, [value]
        while todo:
            item = todo.pop()
            # Nothing below a container that is not owned is owned.
            if owned.pop(id(item), None) is not None:
                children = item.values() if isinstance(item, dict) else item
                todo.extend(child for child in children if id(child) in owned)  # type: ignore[union-attr]
        return value

    # ------------------------------------------------------------ the five ways in which anything changes:
    # a key comes (in `put`), a key goes (in `remove`), one value for another, a cut in an array, another whole

    def _put_root(self, value: Value) -> None:
        if self._meter is not None:
            self._meter.swap(self.root, value, 0)
        self.root = value

    def _swap(self, holder: Any, key: str | int, value: Value, level: int) -> None:
        if self._meter is not None:
            self._meter.swap(holder[key], value, level)
        holder[key] = value

    def _splice(self, array: list[Value], index: int, remove: int, added: list[Value], level: int) -> None:
        if self._meter is not None:
            self._meter.cut(len(array), index, array[index : index + remove], added, level)
        array[index : index + remove] = added

    # ------------------------------------------------------------ owning

    def _own(self, tokens: Tokens) -> Container:
        """The container at a place, owned with all above it."""
        node: Any = self.root
        owned = self._owned
        if id(node) not in owned:
            node = self.root = self._copy(node, tokens)
        for token in tokens:
            try:
                key = token if type(node) is dict else position(node, token)
                child = node[key]
            except KeyError:
                raise nothing_at(tokens) from None
            if id(child) not in owned:
                child = node[key] = self._copy(child, tokens)
            node = child
        return node  # type: ignore[no-any-return]

    def _copy(self, node: Any, tokens: Tokens) -> Container:
        if type(node) is not dict and type(node) is not list:
            raise Fault(f"{_shown(tokens)} is not an object or an array, or lies inside a plain value")
        if self._meter is not None:
            self._meter.copied(len(node))
        mine: Container = node.copy()
        self._owned[id(mine)] = mine
        return mine


def position(array: object, token: str) -> int:
    """The index of an element that is there."""
    at = insertion(array, token)
    if token == _BEHIND or at == len(array):  # type: ignore[arg-type]  # it has just been seen to be a list
        raise Fault(f"the array has no element {pointer.shown(token)!r}")
    return at


def insertion(array: object, token: str) -> int:
    """The index before which `add` puts an element; `-` is behind the last."""
    if type(array) is not list:
        raise Fault(f"there is nothing at {pointer.shown(token)!r} inside a plain value")
    at = len(array) if token == _BEHIND else pointer.index(token, len(array))
    if at is None:
        raise Fault(f"{pointer.shown(token)!r} is not an index of the array, which has {len(array)} elements")
    return at


def nothing_at(tokens: Tokens) -> Fault:
    return Fault(f"there is nothing at {_shown(tokens)}")


def _shown(tokens: Tokens) -> str:
    return repr(pointer.shown(pointer.write(tokens)))
