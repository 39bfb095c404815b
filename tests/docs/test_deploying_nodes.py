"""The files of examples/nodes fit together and fit this version: names, ports, times, settings and flags."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from stemmadb.client.cli import main
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.settings.sources import load
from stemmadb.server.storage.postgres.appender import APPENDS_IN_FLIGHT_MAX
from stemmadb.server.storage.postgres.storage import CLAIM_CONNECTIONS, READER_CONNECTIONS, SIDE_CONNECTIONS

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples" / "nodes"
NODES = ("a", "b")
MADE_BY_HAND = {"pgpass", "db_password", "front.pem"}
HAPROXY_SECTIONS = {"global", "defaults", "resolvers", "listen"}
HAPROXY_WORDS = {
    *(
        "maxconn",
        "ssl-default-bind-options",
        "mode",
        "timeout",
        "parse-resolv-conf",
        "bind",
        "http-request",
        "balance",
    ),
    *("hash-type", "option", "http-check", "retry-on", "default-server", "server"),
}
HEARTBEAT_AND_EXPIRY = 2
AT_START_AND_END = 1
NODE_CONNECTIONS = (
    APPENDS_IN_FLIGHT_MAX
    + SIDE_CONNECTIONS
    + CLAIM_CONNECTIONS
    + READER_CONNECTIONS
    + HEARTBEAT_AND_EXPIRY
    + AT_START_AND_END
)


def read(name: str) -> str:
    return (FILES / name).read_text()


def composed() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(read("compose.yaml"))
    return found


def settings(node: str, tmp_path: Path) -> Config:
    return load(flags={}, environment={}, file=FILES / f"{node}.toml", directory=tmp_path).config


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    assert found is not None, text
    return int(found[1])


def haproxy() -> dict[str, list[list[str]]]:
    """The lines of each section, in words."""
    sections: dict[str, list[list[str]]] = {}
    current: list[list[str]] = []
    for line in read("haproxy.cfg").splitlines():
        words = line.partition("#")[0].split()
        if words and not line.startswith(" "):
            assert words[0] in HAPROXY_SECTIONS, line
            current = sections.setdefault(words[0], [])
        elif words:
            assert words[0] in HAPROXY_WORDS, line
            current.append(words)
    return sections


@pytest.mark.parametrize("node", NODES)
def test_the_settings_of_a_node_load(node: str, tmp_path: Path) -> None:
    config = settings(node, tmp_path)
    assert config.node_address == f"{node}:{config.port}"
    assert config.storage == "postgresql://stemma@db/stemma"
    assert config.workers == 1
    a, b = (tomllib.loads(read(f"{one}.toml")) for one in NODES)
    assert {key for key in a if a[key] != b[key]} == {"node_address"}


def test_what_compose_names_is_there() -> None:
    made = composed()
    for name, service in made["services"].items():
        assert ("image" in service) != ("build" in service), name
        assert set(service["networks"]) <= set(made["networks"])
        assert set(service.get("secrets", ())) <= set(made["secrets"])
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert (needed == "db" and "healthcheck" in made["services"]["db"]) or needed in NODES  # by its image
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (FILES / source).is_file() or source[2:] in MADE_BY_HAND
            else:
                assert source in made["volumes"]
    assert {Path(secret["file"]).name for secret in made["secrets"].values()} <= MADE_BY_HAND


@pytest.mark.parametrize("node", NODES)
def test_a_node_of_compose_starts_with_its_file_and_has_the_time_to_stop(node: str, tmp_path: Path) -> None:
    service, config = composed()["services"][node], settings(node, tmp_path)
    command, *flags = service["command"]
    known = main.get_command(click.Context(main), command)
    assert known is not None
    assert {flag for flag in flags if flag.startswith("--")} <= {
        flag for param in known.get_params(click.Context(known)) for flag in param.opts
    }
    assert f"./{node}.toml:{flags[flags.index('--config') + 1]}:ro" in service["volumes"]
    assert config.server_key is not None
    assert f"key:{config.server_key.parent}" in service["volumes"]
    assert seconds(service["stop_grace_period"]) * 1_000 > config.drain_ms + config.stop_timeout_ms + 3_000
    assert service["environment"]["PGPASSFILE"] == f"/run/secrets/{service['secrets'][0]}"


def test_the_image_has_what_a_node_needs(tmp_path: Path) -> None:
    text, config = read("Dockerfile"), settings("a", tmp_path)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = re.search(r"/src\[(\w+)\]", text)
    assert found is not None
    assert found[1] in extras
    assert f"EXPOSE {config.port}" in text
    assert f"http://127.0.0.1:{config.port}/readyz" in text
    number = re.search(r"--uid (\d+)", text)
    assert number is not None
    assert f"chown {number[1]} pgpass" in read("compose.yaml")


def test_haproxy_leads_to_the_nodes(tmp_path: Path) -> None:
    sections = haproxy()
    listen = sections["listen"]
    servers = {words[1]: words[2] for words in listen if words[0] == "server"}
    assert servers == {node: settings(node, tmp_path).node_address for node in NODES}
    assert ["balance", "uri", "depth", str("/v1/spaces/did:key:z6Mk".count("/"))] in listen
    assert any(words[:6] == ["http-check", "send", "meth", "GET", "uri", "/readyz"] for words in listen)
    bound = next(words for words in listen if words[0] == "bind")
    assert any(volume.split(":")[1] == bound[-1] for volume in composed()["services"]["front"]["volumes"])
    times = {words[1]: words[2] for words in sections["defaults"] if words[0] == "timeout"}
    assert {"connect", "client", "server", "tunnel"} == set(times)
    assert seconds(times["client"]) > 10  # clients send a heartbeat after 10 s
    assert next(words for words in listen if words[0] == "default-server")[-2:] == ["resolvers", "names"]


def test_the_unit_starts_a_node_and_waits_for_its_end(tmp_path: Path) -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(read("stemmadb@.service"))
    assert set(unit) - {"DEFAULT"} == {"Unit", "Service", "Install"}
    service = unit["Service"]
    serve = main.get_command(click.Context(main), "serve")
    assert serve is not None
    known = {flag for param in serve.get_params(click.Context(serve)) for flag in param.opts}
    assert set(re.findall(r"--[a-z-]+", service["ExecStart"])) <= known
    assert f"/var/lib/{service['StateDirectory']}" in service["ExecStart"]
    config = settings("a", tmp_path)
    assert int(service["TimeoutStopSec"]) * 1_000 > config.drain_ms + config.stop_timeout_ms + 3_000
    assert service["Environment"].startswith("PGPASSFILE=")


def test_patroni_never_empties_the_names_and_leaves_room_for_the_nodes() -> None:
    found = yaml.safe_load(read("patroni.yaml"))
    dcs = found["bootstrap"]["dcs"]
    assert dcs["synchronous_mode"] is dcs["synchronous_mode_strict"] is True
    parameters = dcs["postgresql"]["parameters"]
    assert parameters["synchronous_commit"] == "on"  # and not True, as YAML reads it without quotes
    assert parameters["max_connections"] >= len(NODES) * NODE_CONNECTIONS
    assert found["watchdog"]["mode"] == "required"


def test_the_page_for_operators_names_each_file() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    assert [file.name for file in FILES.iterdir() if f"`{file.name}`" not in page] == []
