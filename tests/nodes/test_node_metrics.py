"""`/metrics` of nodes: each has its own numbers, and the page for operators names all of them."""

from __future__ import annotations

import asyncio
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from node_processes import NodeProcess, url_of
from stemmadb.client import Identity, connect
from stemmadb.server.serving.nodes.metrics import PREFIX

PATIENCE = 60.0
PAGE = Path(__file__).parents[2] / "docs" / "operating.md"


def scraped(node: NodeProcess) -> dict[str, float]:
    """The samples of the node, without their prefix."""
    with urllib.request.urlopen(f"http{node.url.removeprefix('ws')}/metrics", timeout=PATIENCE) as answer:  # noqa: S310
        text = answer.read().decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {one.name.removeprefix(PREFIX): one.value for one in samples if one.name.startswith(PREFIX)}


async def test_nodes_count_what_they_own_append_and_pass_on(url: str, tmp_path: Path) -> None:
    nodes: list[NodeProcess] = []
    identity = Identity.from_seed(bytes(range(32)))
    try:
        nodes += [NodeProcess(url_of(url), tmp_path / "data") for _ in range(2)]
        async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
            for node in nodes:  # the space is made through the first, and so are the commits
                database = await stack.enter_async_context(
                    connect(node.url, identity=identity, config=tmp_path / "config")
                )
                space = await database.space("shared")
                async with space.transaction() as tx:
                    tx.set(f"urn:{node.url}", 1, blind=True)
                await tx.confirmed()
            owner, other = [await asyncio.to_thread(scraped, node) for node in nodes]
    finally:
        for node in nodes:
            node.close()
    assert (owner["spaces_owned"], other["spaces_owned"]) == (1, 0)
    assert owner["append_commits_total"] == 3  # with the access list
    assert 1 <= owner["appends_total"] <= 3
    assert (owner["passed_on_total"], other["appends_total"]) == (0, 0)
    assert other["passed_on_total"] >= 1
    assert owner["claims_total"] >= 1
    assert owner["heartbeat_age_seconds"] >= 0
    page = PAGE.read_text()
    assert [name for name in owner if f"`{name.removesuffix('_total')}`" not in page] == []
