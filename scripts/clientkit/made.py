"""Which files are made, and from what."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from scripts.clientkit import constants, readme, schema, transcripts, types, vectors

from stemmadb.protocol.model.commit import fast_path


def files() -> dict[str, str]:
    """Path from the root of the repository, and text.

    Made by the general path: the extension draws salts that it may not use, so that later ones would differ with it.
    """
    with patch.object(fast_path, "IS_THERE", new=False):
        return _files()


def _files() -> dict[str, str]:
    messages = schema.schema()
    return {
        "docs/spec/messages.schema.json": json.dumps(messages, indent=1) + "\n",
        "tests/vectors/nursery.json": _vectors(vectors.nursery()),
        "tests/vectors/watch_events.json": _vectors(vectors.watch_events()),
        "tests/vectors/drafts.json": _vectors(vectors.drafted()),
        "tests/vectors/transcripts.json": _vectors(transcripts.transcripts()),
        "tests/vectors/held_frames.json": _vectors(vectors.held_frames()),
        "typescript/client/README.md": readme.text(),
        "typescript/client/src/constants.ts": constants.module(),
        "typescript/client/src/wire/messages.ts": types.module(messages),
    }


def _vectors(data: dict[str, Any]) -> str:
    """One line for each case: these are read by programs."""
    lines = ",\n  ".join(json.dumps(case, ensure_ascii=True) for case in data["cases"])
    return f'{{\n "description": {json.dumps(data["description"])},\n "cases": [\n  {lines}\n ]\n}}\n'
