"""Where settings come from, which source wins, and what is said about a bad one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from command_line import here
from stemmadb.server.serving.settings.config import Config
from stemmadb.server.serving.settings.printing import as_answer, as_toml, names_by_group, toml_value
from stemmadb.server.serving.settings.problems import InvalidConfig
from stemmadb.server.serving.settings.sources import LoadedConfig, flag_of, load, nearest, variable_of
from wire_peers import SPACE

OTHERS: Mapping[str, object] = {
    "host": "::1",
    "data": "d",
    "allow_remote": True,
    "listener": "websockets",
    "log_format": "json",
    "log_level": "error",
    "metrics": "off",
    "origins": "https://a.b",
    "hosts": "metrics.example",
    "public": "https://db.example",
    "operators": SPACE,
    "make_spaces": "nobody",
    "console": "off",
    "storage": "postgresql://stemma@db/stemma",
    "node_address": "10.0.0.1:8420",
    "server_key": "k",
    "blobs": "b",
    "lease_ms": 500,
    "read_view_ms_max": 500,
    "message_bytes_max": 2**25,
}
"""Values that are not the defaults; for all other settings 5 is one."""


def loaded(
    directory: Path,
    *,
    toml: str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> LoadedConfig:
    if toml is not None:
        (directory / "stemmadb.toml").write_text(toml)
    return load(flags=flags or {}, environment=environment or {}, file=None, directory=directory)


def told(directory: Path, **sources: object) -> str:
    with pytest.raises(InvalidConfig) as wrong:
        loaded(directory, **sources)  # type: ignore[arg-type]
    assert wrong.value.message.endswith((".", "?"))
    assert "\n" not in wrong.value.message
    return wrong.value.message


def test_without_sources_everything_is_a_default(tmp_path: Path) -> None:
    found = loaded(tmp_path, environment={"PATH": "/bin", "STEMMA": "x"})
    assert found.config == Config()
    assert set(found.sources.values()) == {"default"}
    assert found.sources.keys() == Config.model_fields.keys()


def test_later_sources_win(tmp_path: Path) -> None:
    toml = "port = 1\nhost = '127.0.0.2'\nqueue_max = 7\n"
    variables = {"STEMMADB_PORT": "2", "STEMMADB_HOST": "127.0.0.3"}
    assert loaded(tmp_path, toml=toml).config.port == 1
    assert loaded(tmp_path, environment=variables).config.port == 2
    found = loaded(tmp_path, environment=variables, flags={"port": "3"})
    assert (found.config.port, found.config.host, found.config.settings().queue_max) == (3, "127.0.0.3", 7)
    assert found.sources["port"] == "flag --port"
    assert found.sources["host"] == "environment STEMMADB_HOST"
    assert found.sources["queue_max"] == f"file {tmp_path / 'stemmadb.toml'}"
    assert found.sources["data"] == "default"


@pytest.mark.parametrize("name", Config.model_fields)
def test_every_setting_has_the_same_name_in_every_source(tmp_path: Path, name: str) -> None:
    also: dict[str, object] = {"tls_cert": "c", "tls_key": "c"} if name.startswith("tls_") else {}
    also |= {"workers": 9} if name == "accept_only" else {}
    value = also.get(name, OTHERS.get(name, 5))
    toml = "".join(f"{key} = {toml_value(one)}\n" for key, one in (also | {name: value}).items())
    variables = {variable_of(key): str(one) for key, one in (also | {name: value}).items()}
    results = [
        loaded(tmp_path, environment=variables),
        loaded(tmp_path, flags=also | {name: str(value)}),
        loaded(tmp_path, toml=toml),
    ]
    assert results[0].config == results[1].config == results[2].config != Config()
    sources = [f"environment STEMMADB_{name.upper()}", f"flag --{name.replace('_', '-')}"]
    assert [one.sources[name] for one in results[:2]] == sources


def test_another_file_is_read_instead_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "stemmadb.toml").write_text("port = 1")
    (tmp_path / "other.toml").write_text("port = 2")
    by_flag = load(flags={}, environment={}, file=tmp_path / "other.toml", directory=tmp_path)
    by_variable = load(flags={}, environment={"STEMMADB_CONFIG": "other.toml"}, file=None, directory=tmp_path)
    assert by_flag.config.port == by_variable.config.port == 2
    with pytest.raises(FileNotFoundError):
        load(flags={}, environment={}, file=tmp_path / "missing.toml", directory=tmp_path)


def test_an_unknown_name_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    assert told(tmp_path, environment={"STEMMADB_PROT": "1"}).endswith("Did you mean STEMMADB_PORT?")
    assert "heartbeat_ms?" in told(tmp_path, toml="heartbeat = 3\n")
    assert "tls" in told(tmp_path, toml="[tls]\ncert = 'x'\n")
    assert nearest("COMITS_PER_SECOND") == "commits_per_second"


@pytest.mark.parametrize(
    "name",
    [
        "STEMMADB_NO_EXTENSION",
        "STEMMADB_REQUIRE",
        "STEMMADB_TEST_PG",
        "STEMMADB_URL",
        "STEMMADB_SPACE",
        "STEMMADB_HOME",
        "STEMMADB_MEMORY",
    ],
)
def test_variables_of_the_build_and_of_the_tests_are_no_settings(tmp_path: Path, name: str) -> None:
    found = load(flags={}, environment={name: "1"}, file=None, directory=tmp_path)
    assert set(found.sources.values()) == {"default"}


@pytest.mark.parametrize("bad", ["x", "-1", "65536", "1.5", ""])
def test_a_bad_value_is_one_sentence_that_names_setting_and_source(tmp_path: Path, bad: str) -> None:
    said = told(tmp_path, environment={"STEMMADB_PORT": bad})
    assert said.startswith(f"port cannot be {bad!r} (environment STEMMADB_PORT): it should ")
    assert told(tmp_path, flags={"port": bad}).startswith(f"port cannot be {bad!r} (flag --port): it should ")
    said = told(tmp_path, toml=f"port = {bad or repr(bad)}\n") if bad != "x" else told(tmp_path, toml="port = 'x'\n")
    assert f"(file {tmp_path / 'stemmadb.toml'}): it should " in said


def test_a_long_bad_value_is_cut(tmp_path: Path) -> None:
    assert len(told(tmp_path, environment={"STEMMADB_PORT": "9" * 10_000})) < 300


def test_settings_that_do_not_go_together_name_one_and_its_source(tmp_path: Path) -> None:
    said = told(tmp_path, environment={"STEMMADB_HOST": "0.0.0.0"})  # noqa: S104
    assert said.startswith("host cannot be '0.0.0.0' (environment STEMMADB_HOST): Without TLS ")
    assert "allow_remote" in said
    said = told(tmp_path, flags={"message_bytes_max": "1000"})
    assert said.startswith("part_bytes_max cannot be used (default): it is more than message_bytes_max")


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "stemmadb.toml") in told(tmp_path, toml="port: 1")
    (tmp_path / "stemmadb.toml").write_bytes(b"\xff\xfe")
    assert str(tmp_path / "stemmadb.toml") in told(tmp_path)


def test_what_is_printed_gives_the_same_configuration_again(tmp_path: Path) -> None:
    flags = {"data": 'a "b"\\ \x7f é', "make_spaces": SPACE, "origins": "https://a.b,*", "allow_remote": True}
    first = loaded(tmp_path, flags=flags)
    again = loaded(tmp_path, toml=as_toml(first))
    assert again.config == first.config
    assert "port = 8420  # default\n" in as_toml(first)
    assert "allow_remote = true  # flag --allow-remote\n" in as_toml(first)
    assert "# tls_cert is not set\n" in as_toml(first)


def test_what_is_printed_for_programs_has_every_setting_and_its_source(tmp_path: Path) -> None:
    settings = as_answer(loaded(tmp_path, flags={"port": "1"}))["config"]
    assert isinstance(settings, dict)
    assert settings.keys() == Config.model_fields.keys()
    assert settings["port"] == {"value": 1, "source": "flag --port"}
    assert settings["data"] == {"value": "data", "source": "default"}


def test_every_setting_is_in_one_group() -> None:
    names = [name for group in names_by_group().values() for name in group]
    assert sorted(names) == sorted(Config.model_fields)


# ------------------------------------------------------------ the command


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_prints_the_configuration_and_exits(quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEMMADB_LOG_LEVEL", "debug")
    done = here("serve", "--print-config", "--port", "7")
    assert done.code == 0
    assert "port = 7  # flag --port\n" in done.out
    assert 'log_level = "debug"  # environment STEMMADB_LOG_LEVEL\n' in done.out
    told = here("serve", "--print-config", "--json", "--no-allow-remote")
    assert told.json["config"]["allow_remote"] == {"value": False, "source": "flag --allow-remote"}
    assert list(quiet.iterdir()) == []


def test_the_command_reads_the_file_in_the_working_directory(quiet: Path) -> None:
    (quiet / "stemmadb.toml").write_text("port = 9\n")
    assert here("serve", "--print-config", "--json").json["config"]["port"]["value"] == 9


@pytest.mark.parametrize(
    "words",
    [
        ["--port", "x"],
        ["--host", "0.0.0.0"],  # noqa: S104
        ["--tls-cert", "missing.pem", "--tls-key", "missing.pem"],
        ["--nonsense"],
    ],
)
def test_bad_settings_are_one_sentence_and_exit_code_2(quiet: Path, words: list[str]) -> None:
    done = here("serve", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert here("serve", *words, "--json").json["error"].keys() == {"code", "message"}
    assert list(quiet.iterdir()) == []


def test_a_file_that_is_not_there_exits_with_3(quiet: Path) -> None:
    done = here("serve", "--config", "nowhere.toml", "--json")
    assert done.code == 3
    assert "nowhere.toml" in done.json["error"]["message"]


def test_the_help_has_a_flag_for_every_setting_in_groups() -> None:
    done = here("serve", "--help")
    assert done.code == 0
    assert "Example: stemmadb serve" in done.out
    assert all(f"{flag_of(name)} " in done.out for name in Config.model_fields)
    places = [done.out.index(f"\n{group}:\n") for group in names_by_group()]
    assert places == sorted(places)


@pytest.mark.parametrize("setting", ["data", "host", "tls_cert", "origins", "make_spaces"])
def test_a_nul_in_a_setting_is_one_clear_error(tmp_path: Path, setting: str) -> None:
    text = '["a\\u0000b"]' if setting in ("origins", "make_spaces") else '"a\\u0000b"'
    (tmp_path / "stemmadb.toml").write_text(f"{setting} = {text}\n")
    with pytest.raises(InvalidConfig, match=rf"^{setting} cannot be .*U\+0000; remove it\.$"):
        load(flags={}, environment={}, file=None, directory=tmp_path)
