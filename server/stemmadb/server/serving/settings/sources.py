"""Where settings come from: defaults, a TOML file, the environment, flags; later ones win."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.settings.problems import InvalidConfig

FILE: Final = Path("stemmadb.toml")
"""Read from the working directory if it is there."""
PREFIX: Final = "STEMMADB_"
FILE_VARIABLE: Final = "STEMMADB_CONFIG"
CLIENT_VARIABLES: Final = ("STEMMADB_URL", "STEMMADB_SPACE", "STEMMADB_HOME", "STEMMADB_MEMORY")
OTHER_VARIABLES: Final = (
    FILE_VARIABLE,
    *CLIENT_VARIABLES,
    "STEMMADB_NO_EXTENSION",
    "STEMMADB_REQUIRE",
    "STEMMADB_SKIPS",
    "STEMMADB_TEST_PG",
    "STEMMADB_TEST_PG",
)
"""No settings: where the file is, what clients read, and variables of the build and the tests (CONTRIBUTING.md)."""
DEFAULT: Final = "default"
FITTED: Final = ("console", "make_spaces", "metrics")
"""Settings whose default follows from the host."""
SHOWN_MAX: Final = 60
"""Letters of a bad value that are shown."""


UNSHOWN: Final = ("storage",)
"""A bad value may have a password in it."""


class Given(msgspec.Struct, frozen=True):
    """What one source says about a setting, and how to name that source to a person."""

    value: object
    source: str


class LoadedConfig(msgspec.Struct, frozen=True):
    """The effective configuration, and for each setting where its value came from."""

    config: Config
    sources: Mapping[str, str]


def load(
    *, flags: Mapping[str, object], environment: Mapping[str, str], file: Path | None, directory: Path
) -> LoadedConfig:
    """Reads every source. `InvalidConfig` names the setting and the source; `OSError` if a named file is not there.

    `flags` has the flags that were given, by the names of their settings.
    """
    given = _from_file(file, environment, directory) | _from_environment(environment) | _from_flags(flags)
    _refuse_nul(given)
    try:
        config = Config.model_validate({name: one.value for name, one in given.items()})
    except ValidationError as wrong:
        raise _invalid(wrong.errors(include_url=False)[0], given) from None
    return LoadedConfig(config, {name: _source(name, given) for name in Config.model_fields})


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


# ------------------------------------------------------------ the sources


def _from_file(file: Path | None, environment: Mapping[str, str], directory: Path) -> dict[str, Given]:
    named = file if file is not None else environment.get(FILE_VARIABLE)
    path = directory / (named or FILE)
    if named is None and not path.exists():
        return {}
    try:
        with path.open("rb") as stream:
            table = tomllib.load(stream)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise InvalidConfig(f"{path} cannot be read as TOML: {wrong}.") from None
    source = f"file {path}"
    _refuse_unknown(table, source, written=lambda name: name)
    return {name: Given(value, source) for name, value in table.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    found = {
        _setting_of(name): Given(text, f"environment {name}")
        for name, text in sorted(environment.items())
        if name.startswith(PREFIX) and (name not in OTHER_VARIABLES or _setting_of(name) in Config.model_fields)
    }
    _refuse_unknown(found, "the environment", written=variable_of)
    return found


def _setting_of(variable: str) -> str:
    return variable.removeprefix(PREFIX).lower()


def _from_flags(flags: Mapping[str, object]) -> dict[str, Given]:
    assert flags.keys() <= Config.model_fields.keys(), "flags are made from the settings"
    return {name: Given(value, f"flag {flag_of(name)}") for name, value in flags.items()}


def _refuse_unknown(names: Iterable[str], source: str, *, written: Callable[[str], str]) -> None:
    for name in names:
        if name not in Config.model_fields:
            meant = f"Did you mean {written(nearest(name))}?"
            raise InvalidConfig(f"There is no setting {written(name)} ({source}). {meant}", setting=name)


def _refuse_nul(given: Mapping[str, Given]) -> None:
    """TOML can write one, and no path or host name can hold it."""
    for name, one in given.items():
        texts = one.value if isinstance(one.value, list) else [one.value]
        if any(isinstance(text, str) and "\0" in text for text in texts):
            why = "it holds the character U+0000; remove it"
            raise InvalidConfig(f"{name} cannot be {_shown(one.value)} ({one.source}): {why}.", setting=name)


def nearest(name: str) -> str:
    """The setting whose name is most like this one."""
    return difflib.get_close_matches(name.lower(), Config.model_fields, n=1, cutoff=0.0)[0]


def _source(name: str, given: Mapping[str, Given]) -> str:
    if name in given:
        return given[name].source
    if name in FITTED and "host" in given:
        return f"{DEFAULT} for this host"
    return DEFAULT


# ------------------------------------------------------------ what is wrong


def _invalid(error: ErrorDetails, given: Mapping[str, Given]) -> InvalidConfig:
    """One sentence: the setting, its value, the source of the value, and what it may be."""
    context = error.get("ctx", {})
    name = str(context["setting"]) if error["type"] == "clash" else str(error["loc"][0])
    source = _source(name, given)
    is_shown = name in given and name not in UNSHOWN
    was = f" cannot be {_shown(given[name].value)}" if is_shown else " cannot be used"
    return InvalidConfig(f"{name}{was} ({source}): {_why(error)}.", setting=name, source=source)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _why(error: ErrorDetails) -> str:
    """Pydantic's words, as the end of a sentence."""
    text = error["msg"].removeprefix("Value error, ").rstrip(".")
    return f"it should{text.removeprefix('Input should')}" if text.startswith("Input should") else text
