"""The effective configuration as a file that can be read again, and as an answer for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from stemmadb.server.serving.settings.config import GROUPS, Config, group_of
from stemmadb.server.serving.settings.sources import LoadedConfig


def as_toml(loaded: LoadedConfig) -> str:
    """One line for each setting, with where its value came from; reading it again gives the same configuration."""
    return "\n".join(_lines(loaded)) + "\n"


def as_answer(loaded: LoadedConfig) -> dict[str, object]:
    values = loaded.config.model_dump(mode="json")
    return {"config": {name: {"value": value, "source": loaded.sources[name]} for name, value in values.items()}}


def names_by_group() -> dict[str, list[str]]:
    """All settings, in the order in which people are shown them."""
    return {group: [name for name in Config.model_fields if group_of(name) == group] for group in GROUPS}


def toml_value(value: object) -> str:
    """A value as TOML writes it; JSON's texts and numbers are TOML's."""
    if isinstance(value, tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Path):
        return toml_value(str(value))
    # TOML wants this one escaped, and JSON does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(loaded: LoadedConfig) -> Iterator[str]:
    for number, (group, names) in enumerate(names_by_group().items()):
        yield from ("",) if number else ()
        yield f"# {group}"
        for name in names:
            value = getattr(loaded.config, name)
            source = loaded.sources[name]
            # TOML has no way to say that there is no value.
            yield f"# {name} is not set" if value is None else f"{name} = {toml_value(value)}  # {source}"
