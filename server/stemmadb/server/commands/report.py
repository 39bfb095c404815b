"""The answer of a command about several spaces: one that is bad is told, and the others go on."""

from __future__ import annotations

from collections.abc import Callable

from stemmadb.protocol.errors import BrokenChain, StemmaError, Unavailable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.shared import CommandShell, told


class CommandReport:
    """Takes the answer for one space after the other.

    With `looks` the command was asked how the spaces are: then one that is broken is an answer, which says no (exit
    code 1) and is told before all others. Otherwise the first error is why a part was not done.
    """

    def __init__(self, shell: CommandShell, *, looks: bool) -> None:
        self._shell = shell
        self._looks = looks
        self._errors: list[StemmaError] = []
        self.spaces: list[dict[str, object]] = []

    def take(self, space: Did, work: Callable[[], dict[str, object]]) -> None:
        """Does the work for one space and keeps its answer, or the error it ended with."""
        try:
            with told():
                self.spaces.append(work())
        except StemmaError as error:
            self.fail(space, error)
        except OSError as error:
            self.fail(space, unusable(error))

    def fail(self, space: Did, error: StemmaError) -> None:
        word = "BROKEN" if isinstance(error, BrokenChain) else "FAILED"
        self._shell.say(f"{self._shell.named(space)}: {word}. {error.message}")
        self.spaces.append({"space": space, "name": self._shell.name_of(space), "error": _error_of(error)})
        self._errors.append(error)

    def answer(self, **more: object) -> dict[str, object]:
        """All of it, and the error that decides how the command exits, if there was one."""
        answer: dict[str, object] = more | {"spaces": self.spaces}
        if not self._errors:
            return answer
        broken = [error for error in self._errors if self._looks and isinstance(error, BrokenChain)]
        first = (broken or self._errors)[0]
        if not broken:
            self._shell.ended(first)
        return answer | {"error": _error_of(first)}

    @property
    def good(self) -> list[dict[str, object]]:
        """The answers of the spaces that did not fail."""
        return [one for one in self.spaces if "error" not in one]


def unusable(error: OSError) -> Unavailable:
    what = f"{error.filename}: " if error.filename else ""
    return Unavailable(f"A file cannot be used ({what}{error.strerror or error}). Check it and the disk.")


def _error_of(error: StemmaError) -> dict[str, object]:
    told: dict[str, object] = {"code": error.code, "message": error.message}
    if not isinstance(error, BrokenChain):
        return told
    return told | {"version": error.facts["version"], "place": error.facts["place"]}
