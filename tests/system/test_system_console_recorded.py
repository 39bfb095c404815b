"""The recorded answers of the console in docs/console are what it answers now."""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "docs" / "console"


def timeless(text: str) -> str:
    """Without times, and without the ends of DIDs, which are new for each recording."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "YYYY-MM-DD hh:mm:ss", text)
    return re.sub(r"…[1-9A-HJ-NP-Za-km-z]{8}\b", "…DID", text)


def test_the_recorded_answers_are_current(tmp_path: Path) -> None:
    environment = os.environ | {"TZ": "UTC"}
    command = [str(ROOT / "scripts" / "record-console"), "--into", str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, env=environment)  # noqa: S603
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == sorted(file.name for file in RECORDED.iterdir() if file.suffix in (".svg", ".txt"))
    for file in tmp_path.glob("*.txt"):
        assert timeless(file.read_text()) == timeless((RECORDED / file.name).read_text()), (
            "run scripts/record-console"
        )


def test_the_pictures_fetch_nothing_and_text_fits_80_columns() -> None:
    for picture in RECORDED.glob("*.svg"):
        ET.parse(picture)  # noqa: S314
        assert "url(http" not in picture.read_text().replace(" ", "")
    for text in RECORDED.glob("*.txt"):
        assert max(map(len, text.read_text().splitlines())) <= 80
