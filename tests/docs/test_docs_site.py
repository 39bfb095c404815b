"""The site is built without a warning and without a network, and is whole in itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"""(?:src|href)=["']?(https?:)?//""")
"""Something that a browser would fetch from another host."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("built") / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)]
    nobody = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **nobody, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(  # noqa: S603
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return built


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / name).exists() or (site / name.with_name("index.html")).exists(), name


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not ELSEWHERE.search(page.read_text()), page


def test_an_example_in_a_docstring_is_shown_as_code(site: Path) -> None:
    page = (site / "reference" / "client.html").read_text()
    examples = re.findall(r"<pre.*?</pre>", page, re.DOTALL)
    shown = [re.sub("<[^>]+>", "", example) for example in examples]
    assert any("print(status.connection" in one for one in shown), "it stands at the margin of its docstring"


def test_the_second_heading_of_a_name_can_be_linked_to(site: Path) -> None:
    page = (site / "spec" / "04-protocol.html").read_text()
    assert 'href="#query_1"' in page
    assert 'id="query_1"' in page
