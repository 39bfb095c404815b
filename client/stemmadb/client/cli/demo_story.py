"""What `stemmadb demo` writes: the story of a small team, the same each time. No I/O.

Three people plan a launch on `main`. After a while ada rewrites the text of the first task on the branch `draft`, and
bob does so on `main`: merging the draft finds this one conflict. On `ideas` eva collects what nobody has decided yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final, Literal, NamedTuple

from stemmadb.protocol.model.values.json_values import Value

Person = Literal["ada", "bob", "eva"]
PEOPLE: Final[tuple[Person, ...]] = ("ada", "bob", "eva")
STORY_COMMITS: Final = 300
"""The version of the space when all is written."""
DRAFT: Final = "draft"
IDEAS: Final = "ideas"
TAG: Final = "v1"
CONTESTED: Final = "urn:todo:1"
SEED: Final = 7
_FOUNDING: Final = 1
_VERBS: Final = ("Write", "Check", "Plan", "Order", "Print", "Book", "Test", "Draw", "Translate", "Pack")
_THINGS: Final = (
    "the posters",
    "the website",
    "the tickets",
    "the stage",
    "the menu",
    "the guest list",
    "the photos",
)
_LISTS: Final = ("launch", "home", "travel")
_TAGS: Final = ("soon", "blocked", "easy", "money", "outside")
_TALK: Final = (
    "Who can help?",
    "I called them.",
    "Waiting for an answer.",
    "Looks good to me.",
    "We need two of them.",
)
_DONE: Final = ("finished", "done at last", "nothing left to do here")


class Write(NamedTuple):
    """One entity: a whole value, the operations of a patch, or neither to delete it."""

    id: str
    value: Value = None
    patch: tuple[dict[str, Any], ...] = ()
    is_delete: bool = False


class StoryCommit(NamedTuple):
    """One commit, and why it was made."""

    author: Person
    note: str
    writes: tuple[Write, ...]
    branch: str = "main"


class StoryFork(NamedTuple):
    """A branch begins, from `main` as it is then."""

    name: str
    note: str


class StoryTag(NamedTuple):
    """The head of `main` gets a name."""

    name: str
    note: str


StoryStep = StoryCommit | StoryFork | StoryTag


def story(founding: int = _FOUNDING) -> Iterator[StoryStep]:
    """All steps in order; each takes one version, and `founding` are there before the first."""
    steps = list(_Story().steps(STORY_COMMITS - founding))
    assert len(steps) == STORY_COMMITS - founding
    return iter(steps)


class _Story:
    """`todos` are those that are there on `main`, with their state."""

    def __init__(self) -> None:
        self._chance = Random(SEED)  # noqa: S311  # a story, not a secret
        self._todos: dict[int, bool] = {}
        self._highest = 0
        self._kept: frozenset[int] = frozenset()
        """Those that the draft rewrites: after the fork nobody else touches them on `main`."""

    def steps(self, count: int) -> Iterator[StoryStep]:
        before: list[StoryStep] = [*self._beginning(), *(self._work() for _ in range(80))]
        before.append(StoryTag(TAG, "the plan that everybody agreed to"))
        before += [self._work() for _ in range(40)]
        self._kept = frozenset({2, 3, 4})
        draft = list(self._draft())
        ideas = list(self._ideas())
        fixed = len(before) + 3 + len(draft) + len(ideas)
        yield from before
        yield StoryFork(DRAFT, "try another text before we show it")
        yield StoryCommit("bob", "say what it is in one line", (_patched(1, "/title", "Write the launch post"),))
        yield StoryFork(IDEAS, "what nobody has decided yet")
        waiting = [*draft, *ideas]
        for number in range(count - fixed):
            if waiting and number % 3 == 0:
                yield waiting.pop(0)
            yield self._work()
        yield from waiting

    def _beginning(self) -> Iterator[StoryCommit]:
        yield StoryCommit("ada", "who we are", tuple(Write(f"urn:user:{name}", {"name": name}) for name in PEOPLE))
        for name in _LISTS:
            yield StoryCommit(
                "ada", f"a list for {name}", (Write(f"urn:list:{name}", {"title": name, "open": True}),)
            )
        for number in range(1, 11):
            yield self._new(f"{_VERBS[number - 1]} {_THINGS[number % len(_THINGS)]}")
        yield StoryCommit("ada", "the first thing to do", (_patched(1, "/title", "Write the launch text"),))

    def _draft(self) -> Iterator[StoryCommit]:
        def commit(note: str, *writes: Write) -> StoryCommit:
            return StoryCommit("ada", note, writes, DRAFT)

        yield commit("shorter, and with a date", _patched(1, "/title", "Announce the launch on 1 May"))
        yield commit("both belong together", _patched(2, "/tags", ["soon"]), _patched(3, "/tags", ["soon"]))
        yield commit("ask eva instead", _patched(4, "/by", _link("urn:user:eva")))
        for number, title in enumerate(("Buy a banner", "Invite the press", "Rehearse the talk"), 901):
            yield commit("was missing in the plan", Write(f"urn:todo:{number}", _todo(title, "launch", "ada")))
        for number in (901, 902, 903, 901):
            yield commit("it matters", _voted(number))

    def _ideas(self) -> Iterator[StoryCommit]:
        for number in range(1, 16):
            idea: Value = {"title": f"{self._chance.choice(_VERBS)} {self._chance.choice(_THINGS)}", "votes": 0}
            yield StoryCommit("eva", "an idea", (Write(f"urn:idea:{number}", idea),), IDEAS)

    def _work(self) -> StoryCommit:
        """What somebody does on an ordinary day."""
        free = sorted(number for number in self._todos if number > 1 and number not in self._kept)
        kinds = ("new", "vote", "vote", "vote", "tick", "tick", "talk", "talk", "tags", "move", "drop")
        kind = self._chance.choice(kinds)
        author, number = self._chance.choice(PEOPLE), self._chance.choice(free)
        if kind == "new" or (kind == "drop" and len(free) < 20):
            return self._new(f"{self._chance.choice(_VERBS)} {self._chance.choice(_THINGS)}")
        if kind == "vote":
            return StoryCommit(author, "it matters", (_voted(number),))
        if kind == "tick":
            self._todos[number] = not self._todos[number]
            note = self._chance.choice(_DONE) if self._todos[number] else "not yet, after all"
            return StoryCommit(author, note, (_patched(number, "/done", self._todos[number]),))
        if kind == "talk":
            said: Value = {"by": author, "text": self._chance.choice(_TALK)}
            return StoryCommit(author, "a comment", (_added(number, "/comments/-", said),))
        if kind == "tags":
            tags: Value = [*sorted(self._chance.sample(_TAGS, 2))]
            return StoryCommit(author, "sort it in", (_patched(number, "/tags", tags),))
        if kind == "move":
            where = self._chance.choice(_LISTS)
            return StoryCommit(
                author, f"belongs to {where}", (_patched(number, "/list", _link(f"urn:list:{where}")),)
            )
        del self._todos[number]
        return StoryCommit(author, "we do not need it any more", (Write(f"urn:todo:{number}", is_delete=True),))

    def _new(self, title: str) -> StoryCommit:
        self._highest += 1
        self._todos[self._highest] = False
        author = PEOPLE[self._highest % len(PEOPLE)]
        value = _todo(title, _LISTS[self._highest % len(_LISTS)], author)
        return StoryCommit(author, f"new: {title.lower()}", (Write(f"urn:todo:{self._highest}", value),))


def _todo(title: str, where: str, author: str) -> Value:
    return {
        "title": title,
        "done": False,
        "votes": 0,
        "tags": [],
        "list": _link(f"urn:list:{where}"),
        "by": _link(f"urn:user:{author}"),
        "comments": [],
    }


def _link(id_: str) -> Value:
    return {"/": {"link@1": {"id": id_}}}


def _patched(number: int, path: str, value: Value) -> Write:
    return Write(f"urn:todo:{number}", patch=({"op": "replace", "path": path, "value": value},))


def _added(number: int, path: str, value: Value) -> Write:
    return Write(f"urn:todo:{number}", patch=({"op": "add", "path": path, "value": value},))


def _voted(number: int) -> Write:
    return Write(f"urn:todo:{number}", patch=({"op": "increment", "path": "/votes", "by": 1},))
