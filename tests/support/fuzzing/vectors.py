"""The golden vectors as fuzzing needs them: cases by file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]


@cache
def vector(name: str) -> dict[str, Any]:
    """A file of tests/vectors."""
    read: dict[str, Any] = json.loads((TESTS / "vectors" / f"{name}.json").read_text())
    return read


def client_messages() -> list[dict[str, Any]]:
    """Every message of a client."""
    return [case for case in vector("messages")["cases"] if case["direction"] == "client to server"]


def server_messages() -> list[dict[str, Any]]:
    """Every message of a server."""
    return [case for case in vector("messages")["cases"] if case["direction"] == "server to client"]
