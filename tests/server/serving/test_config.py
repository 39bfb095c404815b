"""The settings themselves: their defaults, what they may be, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.serving.settings.bounds import NUMBER_MAX
from stemmadb.server.serving.settings.config import GROUPS, Config, description_of, group_of, is_loopback
from wire_peers import SERVER, SPACE

OPEN: dict[str, Any] = {"host": "0.0.0.0", "allow_remote": True}  # noqa: S104


def config(**values: object) -> Config:
    return Config.model_validate(values)


def refused(**values: object) -> str:
    with pytest.raises(ValidationError) as wrong:
        config(**values)
    assert wrong.value.error_count() == 1
    return str(wrong.value.errors()[0]["msg"])


def test_the_defaults_are_those_of_a_server_on_this_machine() -> None:
    made = config()
    assert (made.host, made.port, made.data, made.listener) == ("127.0.0.1", 8420, Path("data"), "auto")
    assert (made.tls_cert, made.tls_key, made.origins, made.allow_remote) == (None, None, (), False)
    assert (made.log_format, made.log_level) == ("human", "info")
    assert (made.handshake_timeout_ms, made.heartbeat_ms, made.stop_timeout_ms) == (10_000, 20_000, 5_000)
    assert made.limits() == Limits()
    assert made.settings() == Settings()
    assert made.service_settings() == ServiceSettings()


@pytest.mark.rule("MODEL-3")
@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_every_bound_of_the_protocol_is_a_setting(name: str) -> None:
    changed = getattr(Limits(), name) - 1
    assert config(**{name: changed}).limits() == msgspec.structs.replace(Limits(), **{name: changed})
    assert config(**{name: changed}).settings() == Settings()


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_every_size_of_the_engine_is_a_setting(name: str) -> None:
    changed = getattr(Settings(), name) - 1
    setting = {"reads_max": "view_reads_max"}.get(name, name)
    assert config(**{setting: changed}).settings() == msgspec.structs.replace(Settings(), **{name: changed})
    assert config(**{setting: changed}).limits() == Limits()


@pytest.mark.parametrize("name", [name for name in ServiceSettings.__struct_fields__ if name != "make_spaces"])
def test_every_bound_of_the_service_is_a_setting(name: str) -> None:
    changed = getattr(ServiceSettings(), name) - 1
    made = config(**{name: changed})
    assert made.service_settings() == msgspec.structs.replace(ServiceSettings(), **{name: changed})
    assert (made.limits(), made.settings()) == (Limits(), Settings())


@pytest.mark.parametrize(
    ("makers", "spaces"),
    [("anyone", None), ("nobody", frozenset()), ([SPACE, SERVER], frozenset({SPACE, SERVER}))],
)
def test_the_service_learns_which_spaces_may_be_made(makers: object, spaces: object) -> None:
    assert config(make_spaces=makers).service_settings().make_spaces == spaces


@pytest.mark.parametrize("name", Config.model_fields)
def test_every_setting_is_described_and_belongs_to_a_group(name: str) -> None:
    assert description_of(name).endswith(".")
    assert group_of(name) in GROUPS


def numbers() -> list[str]:
    return [name for name, field in Config.model_fields.items() if field.annotation is int]


@pytest.mark.parametrize("name", numbers())
def test_every_number_is_whole_and_has_two_ends(name: str) -> None:
    for bad in (-1, NUMBER_MAX + 1, 1.5, 2.0, True, "x", "", None):
        assert refused(**{name: bad})
    if name == "port":
        assert (config(port=0).port, config(port=65_535).port) == (0, 65_535)
        assert refused(port=65_536)
    else:
        assert refused(**{name: 0})


def test_bounds_end_where_the_storage_ends() -> None:
    assert config(bulk_operations_max=2**20 - 1).limits().bulk_operations_max == 2**20 - 1
    for name in ("bulk_operations_max", "operations_max"):
        assert refused(**{name: 2**20})
    assert refused(depth_max=129)
    assert refused(writer_threads=1_025)


@pytest.mark.parametrize("name", ["part_bytes_max", "value_bytes_max", "blob_chunk_bytes_max"])
def test_what_goes_into_a_message_is_not_larger_than_a_message(name: str) -> None:
    most = Limits().message_bytes_max
    assert getattr(config(**{name: most}).limits(), name) == most
    assert "message_bytes_max" in refused(**{name: most + 1})


def test_the_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        config().port = 1


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("listener", "uvloop"),
        ("log_format", "xml"),
        ("log_level", "loud"),
        ("metrics", "some"),
        ("host", ""),
        ("host", 7),
        ("data", ""),
        ("data", 7),
        ("tls_cert", ""),
        ("allow_remote", "perhaps"),
        ("origins", "app.example"),
        ("origins", "https://app.example/path"),
        ("origins", ["https://*.example"]),
        ("origins", 7),
        ("origins", [7]),
        ("make_spaces", "everyone"),
        ("make_spaces", []),
        ("make_spaces", ""),
        ("make_spaces", 7),
        ("make_spaces", [SPACE, "did:key:z"]),
        ("unheard_of", 1),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, bad: object) -> None:
    assert refused(**{name: bad})


def test_lists_are_written_as_lists_or_with_commas() -> None:
    assert config(origins="https://a.example, http://b:80").origins == ("https://a.example", "http://b:80")
    assert config(origins=["*"]).origins == ("*",)
    assert config(origins="").origins == ()
    assert config(make_spaces=f"{SPACE},{SERVER}").make_spaces == (SPACE, SERVER)
    assert config(make_spaces=[SPACE]).make_spaces == (SPACE,)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("192.168.1.2", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    made = config(host=host, allow_remote=True)
    assert (made.make_spaces, made.metrics) == (("anyone", "spaces") if loopback else ("nobody", "totals"))


def test_who_may_make_spaces_can_be_said_on_any_host() -> None:
    assert config(make_spaces="nobody").make_spaces == "nobody"
    assert config(**OPEN, make_spaces="anyone").make_spaces == "anyone"


def test_listening_elsewhere_without_tls_wants_to_be_meant() -> None:
    assert "Without TLS" in refused(host="0.0.0.0")  # noqa: S104
    (risk,) = config(**OPEN).risks
    assert "Without TLS" in risk


def test_strangers_who_make_spaces_want_to_be_meant_also_with_tls() -> None:
    tls = {"tls_cert": "c", "tls_key": "k", "host": "10.0.0.1"}
    assert config(**tls).risks == ()
    assert "create spaces" in refused(**tls, make_spaces="anyone")
    (risk,) = config(**tls, make_spaces="anyone", allow_remote=True).risks
    assert "create spaces" in risk
    assert len(config(**OPEN, make_spaces="anyone").risks) == 2


def test_on_loopback_nothing_is_risky() -> None:
    assert config(make_spaces="anyone", allow_remote=True).risks == ()


def test_a_certificate_and_its_key_come_together() -> None:
    assert "tls_key" in refused(tls_cert="c")
    assert "tls_cert" in refused(tls_key="k")
