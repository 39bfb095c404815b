"""Where the user's keys and names are kept on each system."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "STEMMADB_HOME"
"""Names the directory itself, for tests and for users who want it elsewhere."""
OURS: Final = "stemmadb"


def config_directory(
    environment: Mapping[str, str] | None = None, *, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """The user's config directory; it may not be there yet.

    >>> config_directory({"STEMMADB_HOME": "/srv/keys"})
    PosixPath('/srv/keys')
    >>> config_directory({}, platform="linux", home=Path("/home/ann"))
    PosixPath('/home/ann/.config/stemmadb')
    """
    found = os.environ if environment is None else environment
    if chosen := found.get(HOME_VARIABLE):
        return Path(chosen).expanduser()
    user = Path.home() if home is None else home
    if platform == "darwin":
        return user / "Library" / "Application Support" / OURS
    if platform == "win32":
        return Path(found.get("APPDATA") or user / "AppData" / "Roaming") / OURS
    return _xdg(found, user) / OURS


def _xdg(environment: Mapping[str, str], home: Path) -> Path:
    """A relative path there is to be ignored: so says the XDG Base Directory Specification."""
    chosen = Path(environment.get("XDG_CONFIG_HOME", ""))
    return chosen if chosen.is_absolute() else home / ".config"
