"""What authors of clients need, made from the Python code; `python -m scripts.clientkit` writes it.

`schema` derives a JSON Schema of every message from the message types, `types` the TypeScript of it, `vectors` the
golden data of the client's rules (nursery, drafts, watches), `cases` seeded cases for the differential test, and
`pages` the tables of the page "Write a client in levels".

It may import everything of StemmaDB and the tests' support; nothing of StemmaDB imports it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("tests/support", "tests/checkers", "tests")]
