"""docs/operating.md names every setting with its default and what it does, every endpoint and every metric."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from stemmadb.server.serving import health
from stemmadb.server.serving.metrics import BY_CODE, NUMBERS, SPREADS
from stemmadb.server.serving.settings.config import Config, description_of
from stemmadb.server.serving.settings.printing import names_by_group, toml_value
from stemmadb.server.serving.settings.sources import FITTED

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operating.md").read_text()


def row(name: str) -> str:
    default = Config.model_fields[name].default
    shown = "" if default is None or name in FITTED else f"`{toml_value(default)}`"
    return f"| `{name}` | {shown} | {description_of(name)} |"


def table(names: Sequence[str]) -> str:
    """The settings of one group, as the page has them."""
    return "\n".join(["| name | default | what it is |", "|---|---|---|", *map(row, names)])


@pytest.mark.parametrize("group", names_by_group())
def test_every_setting_is_documented_with_its_default(group: str) -> None:
    expected = f"### {group}\n{table(names_by_group()[group])}\n"
    assert expected in PAGE, f"docs/operating.md lacks, or has differently:\n{expected}"


def test_every_endpoint_is_documented() -> None:
    for path in (health.HEALTHZ, health.READYZ, health.METRICS):
        assert f"`{path}`" in PAGE


@pytest.mark.parametrize("name", [metric.name for metric in (*NUMBERS, *BY_CODE, *SPREADS)])
def test_every_metric_is_documented(name: str) -> None:
    assert f"`{name}" in PAGE


def test_every_event_that_the_process_logs_is_documented() -> None:
    source = (ROOT / "server" / "stemmadb" / "server" / "serving" / "app.py").read_text()
    events = set(re.findall(r'LOG\.\w+\("(\w+)"', source)) | set(re.findall(r'"(\w+_timed_out)"', source))
    assert len(events) >= 7
    assert {event for event in events | {"said", "library"} if f"`{event}`" not in PAGE} == set()
