"""The deployment page says what works: its settings load, its flags exist, and its unit stops the server in time."""

from __future__ import annotations

import re
from pathlib import Path

import click

from stemmadb.client.cli import main
from stemmadb.server.serving.settings.sources import load

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "deploying.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, language
    return found[1]


def test_the_settings_file_loads(tmp_path: Path) -> None:
    (tmp_path / "stemmadb.toml").write_text(block("toml"))
    config = load(flags={}, environment={}, file=None, directory=tmp_path).config
    assert (config.host, config.port, config.log_format) == ("127.0.0.1", 8420, "json")


def test_every_flag_of_the_page_is_one_of_serve() -> None:
    serve = main.get_command(click.Context(main), "serve")
    assert serve is not None
    known = {flag for param in serve.get_params(click.Context(serve)) for flag in param.opts}
    started = "\n".join(line for line in PAGE.splitlines() if line.startswith(("ExecStart", "ENTRYPOINT", "CMD")))
    flags = set(re.findall(r"--[a-z-]+", started))
    assert {"--data", "--config", "--host", "--allow-remote"} <= flags <= known


def test_the_unit_waits_longer_than_the_server_takes_to_stop() -> None:
    config = load(flags={}, environment={}, file=None, directory=Path("/nonexistent")).config
    seconds = int(re.findall(r"TimeoutStopSec=(\d+)", block("ini"))[0])
    assert seconds * 1_000 > config.stop_timeout_ms + 3_000


def test_the_container_has_what_a_remote_listener_needs(tmp_path: Path) -> None:
    flags = {"host": "0.0.0.0", "allow_remote": True, "data": str(tmp_path)}  # noqa: S104 - inside a container
    assert load(flags=flags, environment={}, file=None, directory=tmp_path).config.allow_remote
    for word in ("proxy_set_header Upgrade", "SSL_CERT_FILE", "server.key", "HEALTHCHECK"):
        assert word in PAGE
