"""Makes the simulation and the checkers importable by their names."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [path for path in (str(TESTS), str(TESTS / "checkers")) if path not in sys.path]
