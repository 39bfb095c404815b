"""Which files are made, and from what."""

from __future__ import annotations

import json

from scripts.clientkit import constants, schema, types


def files() -> dict[str, str]:
    """Path from the root of the repository, and text."""
    messages = schema.schema()
    return {
        "docs/spec/messages.schema.json": json.dumps(messages, indent=1) + "\n",
        "typescript/client/src/constants.ts": constants.module(),
        "typescript/client/src/wire/messages.ts": types.module(messages),
    }
