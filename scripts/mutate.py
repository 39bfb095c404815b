"""The mutation run: `python scripts/mutate.py [--only WORDS | --missing] [--jobs 2]`.

Copies the tree to a temporary directory, applies the bugs of tests/mutations/*.toml one at a time, and runs the
tests that each names. Renews their rows in docs/mutations.md. Exit code 1 if a bug survives or does not apply, or if
one of the tests fails without any bug.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from scripts.mutating import report, running  # noqa: E402
from scripts.mutating.mutations import Clock, DoesNotApply, Mutation, applied, load  # noqa: E402
from scripts.mutating.report import Result  # noqa: E402

QUICK_SECONDS: Final = 60.0
"""A bug that makes a test hang is caught by the time limit only if the test takes less than this without the bug."""
PATIENCE: Final = 5
LEAST_SECONDS: Final = 120.0


class Tree(NamedTuple):
    """A copy that one worker breaks and mends."""

    place: Path
    clock: Clock


class Run:
    """The workers share the mutations, each with a tree of its own."""

    def __init__(self, trees: Sequence[Tree], unbroken: running.Unbroken) -> None:
        self._unbroken = unbroken
        self._trees: SimpleQueue[Tree] = SimpleQueue()
        for tree in trees:
            self._trees.put(tree)

    def test(self, mutation: Mutation) -> Result:
        """What became of one."""
        tree = self._trees.get()
        try:
            ran = self._ran(mutation, tree)
        finally:
            self._trees.put(tree)
        is_quick = not ran.is_late or self._unbroken.of(mutation.tests) < QUICK_SECONDS
        result = Result(mutation, not ran.passed and is_quick and self._unbroken.passes(mutation.tests), ran)
        print(report.line(result), flush=True)
        return result

    def _ran(self, mutation: Mutation, tree: Tree) -> running.Ran:
        limit = max(LEAST_SECONDS, PATIENCE * self._unbroken.of(mutation.tests))
        try:
            with applied(mutation, tree.place, tree.clock):
                return running.run(mutation.tests, tree.place, seconds_max=limit)
        except DoesNotApply as wrong:
            return running.Ran(True, None, str(wrong), 0.0)


def main() -> int:
    """Runs them; 1 if one survived."""
    arguments = _arguments()
    every = load()
    passed_over = report.known() if arguments.missing else {}
    chosen = [one for one in every if arguments.only.lower() in one.name.lower() and one.name not in passed_over]
    if not chosen:
        print("there is no such mutation, or all of them were run")
        return 1
    with tempfile.TemporaryDirectory(prefix="stemmadb-mutate-") as place:
        trees = [Tree(Path(place) / str(number), Clock()) for number in range(arguments.jobs)]
        for tree in trees:
            running.copy_tree(tree.place)
        unbroken = running.unbroken(sorted({test for one in chosen for test in one.tests}), trees[0].place)
        for test in sorted(unbroken.failed):
            print(f"fails without a bug: {test}", flush=True)
        with ThreadPoolExecutor(arguments.jobs) as workers:
            results = list(workers.map(Run(trees, unbroken).test, chosen))
    report.write(results, every)
    print(f"{sum(one.is_caught for one in results)} of {len(results)} caught")
    return 0 if all(one.is_caught for one in results) and not unbroken.failed else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="WORDS", default="", help="only those with these words in their name")
    parser.add_argument("--missing", action="store_true", help="only those that the report does not have yet")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time, each on a copy of its own")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
