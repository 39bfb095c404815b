"""Runs the benchmarks: `make bench`, `make bench SCENARIO=commit`, `make bench-quick`; `--list` names them all."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from benchmarks.harness import catalog, running
from benchmarks.harness.plan import PEERS, QUICK, USUAL, Plan


def main(arguments: list[str] | None = None) -> int:
    """0 if all was measured; 1 if a quick run found a ratio beyond its floor."""
    chosen = _parser().parse_args(arguments)
    if chosen.list:
        for name in (*catalog.ORDER, *catalog.core_names()):
            print(f"{name:<18} {catalog.title(name)}")
        return 0
    plan = _plan(chosen)
    if chosen.only in catalog.core_names():
        return running.run_core(chosen.only, is_quick=chosen.quick)
    if chosen.quick:
        return running.run_quick(plan, only=chosen.only)
    if chosen.only:
        return running.run_one(plan, chosen.only)
    return running.run_all(plan, again=chosen.again)


def _plan(chosen: argparse.Namespace) -> Plan:
    plan = replace(QUICK if chosen.quick else USUAL, is_full=chosen.full)
    given = {"reps": chosen.reps, "seconds": chosen.seconds, "peers": chosen.peers}
    return replace(plan, **{name: value for name, value in given.items() if value is not None})


def _peers(text: str) -> tuple[str, ...]:
    """`etcd,redis`, or `none`."""
    names = () if text == "none" else tuple(text.split(","))
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no peer is called {unknown[0]}; there are {', '.join(PEERS)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", metavar="NAME", choices=[*catalog.ORDER, *catalog.core_names()], help="one scenario; see --list"
    )
    parser.add_argument("--quick", action="store_true", help="few and short turns against etcd; writes nothing")
    parser.add_argument("--list", action="store_true", help="what can be run, and what it shows")
    parser.add_argument("--again", action="store_true", help="start over, where a stopped run would go on")
    parser.add_argument("--full", action="store_true", help="memory at its full size, which takes most of an hour")
    parser.add_argument("--reps", type=int, metavar="N", help="turns of each system, if not as many as usual")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long a turn is, if not as long as usual")
    parser.add_argument("--peers", type=_peers, metavar="NAMES", help="only these, as in etcd,redis; or none")
    return parser


if __name__ == "__main__":
    sys.exit(main())
