"""What a command of the console takes and gives: its words, and an answer for people and for programs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from stemmadb.client.cli.shapes import Shape, TextLines, line
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.console.words import Word
from stemmadb.protocol.errors import Malformed, StemmaError

Takes: TypeAlias = Literal["id", "prefix", "branch", "moment", "command", "strategy", "author", "other"]
"""What a word stands for, so that it can be completed."""
NUMBER_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleReply:
    """What was found, and where the console stands from now on."""

    shapes: Sequence[Shape] = ()
    data: Mapping[str, object] = field(default_factory=dict)
    """The same for a program."""
    state: ConsoleState | None = None
    stream: AsyncGenerator[ConsoleReply, None] | None = None
    """What goes on until it is stopped."""
    error: StemmaError | None = None
    """Why it was not done, where there is more to show than that."""
    is_over: bool = False
    """Whether the console ends."""
    ids: Sequence[str] = ()
    """Entities that were named, which one may want to look at next."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The words after the command, and its options by name."""

    words: Sequence[Word]
    options: Mapping[str, Word | None]

    def text(self, at: int, default: str = "") -> str:
        return self.words[at].text if at < len(self.words) else default

    def rest(self, start: int = 0) -> str:
        """The words from there on, as one text."""
        return " ".join(word.text for word in self.words[start:])

    def has(self, option: str) -> bool:
        return option in self.options

    def option(self, name: str) -> str | None:
        word = self.options.get(name)
        return None if word is None else word.text

    def number(self, name: str, default: int) -> int:
        """The whole number that an option was given; `Malformed` if it is none."""
        text = self.option(name)
        return default if text is None else whole_number(text, name)


Run: TypeAlias = Callable[[ConsoleState, Arguments], Awaitable[ConsoleReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleCommand:
    """A command. `usage` is what `help` shows; `takes` and `options` say what its words are."""

    name: str
    usage: str
    says: str
    example: str
    run: Run
    takes: tuple[Takes, ...] = ()
    least: int = 0
    most: int | None = None
    """How many words it takes; None: any number."""
    options: Mapping[str, Takes | None] = field(default_factory=dict)
    """What each option takes, None if it is given alone."""
    writes: bool = False
    """Whether it is there only in a console that writes."""

    def arguments(self, words: Sequence[Word]) -> Arguments:
        """The words sorted out; `Malformed` says how the command is used."""
        plain: list[Word] = []
        options: dict[str, Word | None] = {}
        left = list(words)
        while left:
            word = left.pop(0)
            if not word.is_option:
                plain.append(word)
                continue
            name, value = self._option(word, left)
            options[name] = value
        if len(plain) < self.least or (self.most is not None and len(plain) > self.most):
            raise self._miscounted()
        return Arguments(plain, options)

    def _miscounted(self) -> Malformed:
        """`get` takes 1 or 2 arguments."""
        if self.most is None:
            takes = f"at least {self.least}"
        elif self.least == self.most:
            takes = str(self.most) if self.most else "no"
        else:
            takes = f"{self.least} to {self.most}" if self.least else f"at most {self.most}"
        count = self.least if self.most is None else self.most
        return self.misused(f"takes {takes} argument{'' if count == 1 else 's'}")

    def misused(self, why: str) -> Malformed:
        message = f"`{self.name}` {why}. Usage: {self.usage}"
        return Malformed(message, path="line", why=why)

    def _option(self, word: Word, left: list[Word]) -> tuple[str, Word | None]:
        name, equals, given = word.text.removeprefix("--").partition("=")
        if name not in self.options:
            raise self.misused(f"has no option --{name[:80]}")
        if self.options[name] is None:
            if equals:
                raise self.misused(f"takes no value after --{name}")
            return name, None
        if equals:
            return name, Word(given, given, word.start)
        if not left:
            raise self.misused(f"needs a value after --{name}")
        return name, left.pop(0)


def said(text: str, **data: object) -> ConsoleReply:
    """A sentence."""
    return ConsoleReply(shapes=(TextLines((line(text),)),), data={"message": text, **data})


def whole_number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > NUMBER_MAX:
        why = f"{text[:80]!r} is not a number from 0 to {NUMBER_MAX}"
        raise Malformed(f"The {what} cannot be read: {why}.", path=what, why=why)
    return int(text)
