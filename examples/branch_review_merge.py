"""Work on a branch, a look at what it would change, a conflict that is decided, and the merge.

Start a server with `make serve`, then: python examples/branch_review_merge.py
"""

from __future__ import annotations

import argparse
import uuid

from stemmadb.client import DELETED
from stemmadb.client.sync import Space, connect
from stemmadb.protocol.errors import MergeConflict

PRICES = {"urn:item:lamp": {"price": 40}, "urn:item:chair": {"price": 80}, "urn:item:rug": {"price": 120}}


def prepare(space: Space) -> None:
    with space.transaction(note="the prices of today") as tx:
        for id_, value in PRICES.items():
            tx.set(id_, value, blind=True)
    tx.confirmed()


def propose(draft: Space) -> None:
    """What somebody would like to change, on a branch of its own: nobody else sees it."""
    with draft.transaction(note="summer sale") as tx:
        tx.patch("urn:item:lamp", [{"op": "replace", "path": "/price", "value": 30}])
        tx.patch("urn:item:chair", [{"op": "replace", "path": "/price", "value": 60}])
        tx.delete("urn:item:rug")
    tx.confirmed()


def review(space: Space, draft: Space) -> None:
    for change in space.diff(space.branch_name, draft.branch_name, prefix="urn:item:*"):
        print(f"  {change.kind:>8} {change.id} {change.patch or ''}")
    print(f"a merge would write {draft.merge_into('main', dry_run=True).writes_count} entities")


def decide(draft: Space) -> None:
    """With `fail` nothing is written where both sides changed the same; a person decides, entity by entity."""
    try:
        draft.merge_into("main", strategy="fail")
    except MergeConflict as conflict:
        clashes = conflict.facts["conflicts"]
        print("both sides changed", ", ".join(clash.id for clash in clashes))
    report = draft.merge_into(
        "main",
        strategy="fail",
        resolutions={"urn:item:lamp": {"price": 35}, "urn:item:rug": DELETED},
        note="agreed on Monday",
    )
    print(f"merged; settled by hand: {[clash.id for clash in report.conflicts if clash.winner == 'resolution']}")


def main(url: str) -> None:
    with connect(url) as db:
        space = db.space("example-prices")
        prepare(space)
        draft = space.branch(f"sale-{uuid.uuid4().hex[:8]}", create=True)
        propose(draft)
        with space.transaction(note="the lamps cost us more") as tx:  # meanwhile, on main
            tx.patch("urn:item:lamp", [{"op": "replace", "path": "/price", "value": 45}])
            tx.patch("urn:item:rug", [{"op": "replace", "path": "/price", "value": 110}])
        tx.confirmed()

        review(space, draft)
        decide(draft)
        print(space.list("urn:item:*"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="ws://127.0.0.1:8420", help="the server")
    main(parser.parse_args().url)
