"""An audit trail: who changed what, when and why, down to the field, and what it was before.

Start a server with `make serve`, then: python examples/audit_trail.py
"""

from __future__ import annotations

import argparse

from stemmadb.client import Identity
from stemmadb.client.sync import Space, connect

ACCOUNT = "urn:account:7"


def work(ann: Space, bob: Space) -> None:
    """Two people change one account."""
    with ann.transaction(note="opened at the counter") as tx:
        tx.set(ACCOUNT, {"owner": "Ada", "limit": 500, "balance": 0}, blind=True)
    tx.confirmed()
    with bob.transaction(note="salary, November") as tx:
        tx.increment(ACCOUNT, "/balance", 1200)
    tx.confirmed()
    with bob.transaction(note="asked for by phone") as tx:
        tx.patch(ACCOUNT, [{"op": "replace", "path": "/limit", "value": 5000}])
    tx.confirmed()


def report(space: Space, ann: Identity, bob: Identity) -> None:
    names = {ann.did: "ann", bob.did: "bob"}
    print("every change, newest first:")
    entries = [entry for entry in space.history(ACCOUNT) if entry.author in names][:3]
    for entry in entries:
        did = entry.patch if entry.kind == "patch" else entry.value
        print(f"  {entry.time:%H:%M:%S} {names[entry.author]} ({entry.note}): {did}")

    print("who wrote each field last:")
    for line in space.blame(ACCOUNT):
        who = "compacted" if line.author is None else names[line.author]
        print(f"  {line.path:<8} {who}, {line.note}")

    print("what bob has done to accounts:")
    for one in space.log(author=bob.did, prefix="urn:account:"):
        print(f"  {one.note}")

    before = space.at(version=entries[0].version - 1).get(ACCOUNT, "/limit")
    print(f"the limit before the last change: {before}")


def main(url: str) -> None:
    bob = Identity.make()
    with connect(url) as mine:
        space = mine.space("example-accounts")
        space.acl.set(bob.did, "write")
        with connect(url, identity=bob) as his:
            work(space, his.space(space.did))
        report(space, mine.identity, bob)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="ws://127.0.0.1:8420", help="the server")
    main(parser.parse_args().url)
