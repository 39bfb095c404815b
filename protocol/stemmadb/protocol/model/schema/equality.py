"""Equality and divisibility of JSON values, exactly (MODEL-3): for `enum`, `const`, `uniqueItems`, `multipleOf`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from stemmadb.protocol.model.schema.work import SchemaRun, refill, spend
from stemmadb.protocol.model.values.json_values import INT_MAX, INT_MIN, Value

_TEXTS = frozenset((str,))
_UNITS = 3  # of work for an item
_DIVISION = 50  # and for dividing what may have hundreds of digits


def identity(value: Value, run: SchemaRun) -> str:
    """A text that two values share exactly if they are equal as JSON: 1 and 1.0 do, 1 and true do not.

    Texts and not tuples are compared, since the hash of a text cannot be foreseen: nobody can send values that all
    fall on one place of a hash table. `LimitExceeded` if the value is more than what is left of the run.
    """
    if isinstance(value, str):
        return f'"{len(value)}:{value}'
    if isinstance(value, dict):
        spend(run, _UNITS * 2 * len(value))
        return _paid(
            "{" + ",".join([identity(key, run) + identity(value[key], run) for key in sorted(value)]) + "}", run
        )
    if isinstance(value, list):
        spend(run, _UNITS * len(value))
        return _paid("[" + ",".join([identity(item, run) for item in value]) + "]", run)
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)


def _paid(text: str, run: SchemaRun) -> str:
    """The text, its length paid for: a few long texts take as long as many short ones."""
    spend(run, len(text) >> 8)
    return text


def all_differ(items: list[Value], run: SchemaRun) -> bool:
    """Whether no two items are equal, in time linear in their size."""
    if len(items) < 2:
        return True
    run.left -= len(items) >> 1
    if run.left < 0:
        refill(run)
    if _TEXTS.issuperset(map(type, items)):
        return len(set(items)) == len(items)
    spend(run, _UNITS * len(items))
    return len({identity(item, run) for item in items}) == len(items)


def multiple_of(divisor: int | float) -> Callable[[int | float, SchemaRun], bool]:
    """Whether a number is a whole multiple of the divisor, both taken as the decimals they are written as.

    As binary fractions 0.0075 is no multiple of 0.0001; as what a person wrote it is.
    """
    above, below = _ratio(divisor)

    def holds(number: int | float, run: SchemaRun) -> bool:
        if type(number) is int and below == 1:
            return number % above == 0
        spend(run, _DIVISION)
        numerator, denominator = _ratio(number)
        return numerator * below % (denominator * above) == 0

    return holds


def _ratio(number: int | float) -> tuple[int, int]:
    """A float that equals an integer of ours is that integer (MODEL-3); any other is the decimal it is written as."""
    if type(number) is int:
        return number, 1
    if number == int(number) and INT_MIN <= number <= INT_MAX:
        return int(number), 1
    return Decimal(repr(number)).as_integer_ratio()
